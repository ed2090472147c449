// SPDX-License-Identifier: Apache-2.0
// The inside of rdma_cm's service: what each call on an endpoint and each event of the connection
// manager does. Only the sources of this folder include it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "nic/rdma_cm/endpoint.h"
#include "nic/rdma_cm/service.h"

namespace uroce::nic::rdma_cm {

/// The manager identifies communications by number; this class maps them to endpoints, and these to
/// programs. After each call or message Pump passes on the results.
class ServiceImpl {
 public:
  ServiceImpl(const ServiceConfig& config, Environment& environment, cm::RandomSource random);

  // ---- service.cc: tables, time, messages ----
  uint32_t AddClient(const Owner& owner, Service::HasQueuePair has_queue_pair,
                     Service::EventHandler handler);
  void RemoveClient(uint32_t number);
  /// Null when the program has no such endpoint.
  Endpoint* Find(uint32_t client, EndpointId id);
  Result Create(uint32_t client, wire::PortSpace space, ibv_qp_type qp_type, EndpointId& id);
  void Destroy(Endpoint& endpoint);
  void OnMad(const cm::Route& route, std::span<const uint8_t> mad);
  void OnDeadline();
  void OnDeviceGone(uint32_t device);
  void OnMacChange(uint32_t device);
  /// Hands out events and datagrams, and sets the next deadline.
  void Pump();
  bool has_farewells() const;
  const cm::Manager& manager() const { return manager_; }
  uint64_t unsent_dropped() const { return unsent_dropped_; }
  EndpointInfo Describe(const Endpoint& endpoint) const;
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [number, endpoint] : endpoints_) {
      visit(clients_.at(endpoint->client).owner, *endpoint);
    }
  }

  // ---- addresses.cc ----
  Result Bind(Endpoint& endpoint, const SocketAddress& address);
  Result ResolveAddress(Endpoint& endpoint, const SocketAddress* source,
                        const SocketAddress& destination, Nanos timeout);
  Result ResolveRoute(Endpoint& endpoint);
  Result JoinMulticast(Endpoint& endpoint, const SocketAddress& group, bool send_only,
                       MembershipId& membership);
  Result LeaveMulticast(Endpoint& endpoint, MembershipId membership);

  // ---- connections.cc ----
  Result Listen(Endpoint& endpoint, uint32_t backlog);
  Result TakeRequest(Endpoint& endpoint);
  Result Connect(Endpoint& endpoint, const ConnectionParameters& parameters);
  Result Accept(Endpoint& endpoint, const ConnectionParameters& parameters);
  Result Reject(Endpoint& endpoint, uint8_t reason, std::span<const uint8_t> private_data);
  Result Establish(const Endpoint& endpoint) { return manager_.Establish(endpoint.comm); }
  Result NotifyEstablished(const Endpoint& endpoint) {
    return manager_.OnFirstPacket(endpoint.comm);
  }
  Result Disconnect(const Endpoint& endpoint);
  Result InitQueuePair(const Endpoint& endpoint, ibv_qp_state state,
                       QueuePairAttributes& attributes) const;

 private:
  /// Counts of one program, or of all programs of a user.
  struct Holdings {
    uint32_t endpoints = 0;  ///< Including remains of connections.
    uint32_t joins = 0;
  };
  struct ClientEntry {
    Owner owner;
    Service::HasQueuePair has_queue_pair;
    Service::EventHandler handler;
    std::set<EndpointId> endpoints;
    std::shared_ptr<Holdings> holdings;
    std::shared_ptr<Holdings> of_user;
  };

  // ---- service.cc ----
  Endpoint& NewEndpoint(uint32_t client);
  bool HasRoom(uint32_t client) const;
  bool HasRoomToJoin(uint32_t client) const;
  /// Counts one for the program and its user while the result lives.
  std::shared_ptr<void> Count(uint32_t client, uint32_t Holdings::*what);
  Endpoint* FindByComm(cm::CommId comm);
  void Attach(Endpoint& endpoint, cm::CommId comm);
  void Raise(const Endpoint& endpoint, Event event);
  void SendWaiting();
  void SetDeadline();

  // ---- addresses.cc ----
  /// The source that the endpoint is bound to, or the one that the route suggests.
  Result ChooseSource(const Endpoint& endpoint, const SocketAddress& destination,
                      Attachment& source);
  /// Replaces an address of this host as a whole by an address of a device.
  Result ChooseDestination(const Endpoint& endpoint, SocketAddress& destination);
  void OnNeighbour(EndpointId id, const Attachment& source, int error);
  PathRecord PathOf(const Endpoint& endpoint) const;
  Event JoinEvent(const Endpoint& endpoint, MembershipId membership, const Gid& group) const;

  // ---- connections.cc ----
  bool HasQueuePair(const Endpoint& endpoint, Qpn qpn) const {
    return clients_.at(endpoint.client).has_queue_pair(qpn);
  }
  static cm::Route RouteOf(const Endpoint& endpoint);
  cm::QueuePairParameters QueuePairOf(const Endpoint& endpoint,
                                      const ConnectionParameters& parameters) const;
  Result SendReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                 cm::CommId& comm);
  Result SendSidrReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                     cm::CommId& comm);

  // ---- events.cc ----
  void OnEvent(const cm::Event& event);
  bool Serves(const Endpoint& listener, ibv_qp_type qp_type, const cm::Route& route);
  void OnRequest(const cm::Event& event);
  Endpoint& AddRequest(Endpoint& listener, const cm::Event& event);
  void OnResolved(Endpoint& endpoint, const cm::Event& event);

  const ServiceConfig config_;
  Environment& environment_;
  cm::RandomSource random_;
  cm::Manager manager_;
  uint32_t last_client_ = 0;
  uint32_t last_endpoint_ = 0;
  uint32_t last_membership_ = 0;
  absl::flat_hash_map<uint32_t, ClientEntry> clients_;
  absl::flat_hash_map<uint32_t, std::weak_ptr<Holdings>> users_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Endpoint>> endpoints_;
  absl::flat_hash_map<uint32_t, EndpointId> by_comm_;
  absl::flat_hash_map<uint32_t, EndpointId> by_binding_;
  /// By device: datagrams without room. A device that cannot send does not delay the others.
  std::map<uint32_t, std::deque<cm::Datagram>> unsent_;
  uint64_t unsent_dropped_ = 0;
};

}  // namespace uroce::nic::rdma_cm
