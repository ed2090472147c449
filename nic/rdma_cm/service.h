// SPDX-License-Identifier: Apache-2.0
// rdma_cm for programs: endpoints (rdma_cm_ids) with addresses, routes and connections, above the
// connection manager. Pure: what it needs of the daemon is an Environment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nic/cm/manager.h"
#include "nic/rdma_cm/environment.h"
#include "nic/rdma_cm/types.h"

namespace uroce::nic::rdma_cm {

struct ServiceConfig {
  cm::Config manager;
  /// Of endpoints, and of what is left of their connections after their end: time wait, a DREQ that
  /// waits for its answer.
  uint32_t endpoints_per_program = 16384;
  uint32_t endpoints_per_user = 32768;
  uint32_t joins_per_program = 256;  ///< Of multicast groups.
  uint32_t joins_per_user = 512;
  /// Code of how long both sides may take to answer: what is lost is repeated after that. Linux's.
  uint8_t cm_response_timeout = 20;
  /// Ports below are for the privileged, as net.ipv4.ip_unprivileged_port_start says.
  uint16_t first_unprivileged_port = 1024;
};

/// Who the endpoints are made for.
struct Owner {
  uint32_t client = 0;  ///< For `uroce cm`; no meaning here.
  uint32_t uid = 0;
  bool is_privileged = false;
};

class Client;
class ServiceImpl;

/// One thread, the control thread.
class Service {
 public:
  Service(const ServiceConfig& config, Environment& environment, cm::RandomSource random);
  /// All clients are gone by then.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Gets each event of the program's endpoints, in order, at once when it arises: also from within
  /// calls of the client. It must not call the client; it takes the event to a queue.
  using EventHandler = std::function<void(const Event&)>;
  /// Whether a queue pair is the program's.
  using HasQueuePair = std::function<bool(Qpn)>;
  /// A program's way in. Its end destroys all its endpoints: peers are told.
  std::unique_ptr<Client> AddClient(const Owner& owner, HasQueuePair has_queue_pair,
                                    EventHandler handler);

  /// A MAD that came for the GSI of a device. `route`: see cm::Manager::OnMad.
  void OnMad(const cm::Route& route, std::span<const uint8_t> mad);
  /// At the time that Environment::SetDeadline gave.
  void OnDeadline();
  /// The device is gone with its addresses: its endpoints get kDeviceRemoval.
  void OnDeviceGone(uint32_t device);
  /// The device has another MAC: what is bound to it gets kAddressChange, and goes on.
  void OnMacChange(uint32_t device);

  /// Messages and repeats that wait for an answer of peers, after all clients are gone.
  bool has_farewells() const;
  const cm::Counters& counters() const;
  /// What the connection manager keeps: communications, those in time wait too, and addresses.
  size_t communications() const;
  size_t bindings() const;
  /// Datagrams that found no room for too long.
  uint64_t unsent_dropped() const;
  /// For dumps: calls `visit` for each endpoint of each program, in no order.
  void ForEach(
      const std::function<void(const Owner&, EndpointId, const EndpointInfo&)>& visit) const;

 private:
  std::unique_ptr<ServiceImpl> impl_;
};

/// The endpoints of one program. Calls return kOk, or why nothing has changed (ErrnoOf); what takes
/// time ends with an event. Each call may return kNoSuchId: no endpoint of this program.
class Client {
 public:
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// `qp_type`: IBV_QPT_RC, UC, UD, or the XRC ones.
  /// Errors: kNoRoom; kNotSupported: the port space (kIpoib) or the queue pair type.
  Result Create(wire::PortSpace space, ibv_qp_type qp_type, EndpointId& id);
  /// Ends the endpoint in whatever state; the peer is told. Requests to a listener that have not
  /// been taken (TakeRequest) go with it, and with them the endpoints of these events. No event of
  /// any of them follows.
  Result Destroy(EndpointId id);

  // ---- options, before they take effect; see rdma_set_option ----
  Result SetTypeOfService(EndpointId id, uint8_t tos);
  Result SetReuseAddress(EndpointId id, bool on);
  /// An IPv6 wildcard that takes no IPv4.
  Result SetOwnFamilyOnly(EndpointId id, bool on);
  /// The queue pair's ACK timeout. `code`: 0 to 31.
  Result SetAckTimeout(EndpointId id, uint8_t code);

  // ---- addresses ----
  /// A loopback address is of no device, as a wildcard is; who listens there is reached from this
  /// host alone, at the addresses of all its devices. Errors: kNotPermitted: the port;
  /// kAddressInUse, kAddressNotAvailable: also when no device has the address.
  Result Bind(EndpointId id, const SocketAddress& address);
  /// Ends with kAddressResolved or kAddressError (-ETIMEDOUT, -ENODEV, -ENETUNREACH). `source`:
  /// null, or the address to bind to first. `timeout`: for the neighbour to answer. A loopback
  /// address, or a wildcard, leads to whoever listens on any of the host's devices; the endpoint
  /// then has these devices' addresses. Errors: kNoRoute, and those of Bind; kInvalid also: from a
  /// loopback address to another host.
  Result ResolveAddress(EndpointId id, const SocketAddress* source,
                        const SocketAddress& destination, Nanos timeout);
  /// Ends with kRouteResolved: RoCE has nobody to ask.
  Result ResolveRoute(EndpointId id);

  // ---- connections and services of datagrams ----
  /// Binds an endpoint that is not bound. `backlog`: requests that may wait for TakeRequest; the
  /// rest is dropped, and peers repeat it. 0 counts as 1024, which is also the most.
  Result Listen(EndpointId id, uint32_t backlog);
  /// The program has been shown the kConnectRequest whose event had this `id`.
  Result TakeRequest(EndpointId id);
  /// To the resolved address. Ends with kConnectResponse (of datagrams: kEstablished), kRejected or
  /// kUnreachable. Errors: kInvalid: the queue pair is not the program's; peers would take it for
  /// another program's. The kernel takes any number.
  Result Connect(EndpointId id, const ConnectionParameters& parameters);
  /// Answers a request; ends with kEstablished (not for datagrams), kRejected or kUnreachable. The
  /// queue pair is in RTS by then. Errors: as of Connect.
  Result Accept(EndpointId id, const ConnectionParameters& parameters);
  /// Refuses a request, or after kConnectResponse the connection. `reason`: 0 or 28 (consumer
  /// defined), 35 (vendor option). Errors: kInvalid: another.
  Result Reject(EndpointId id, uint8_t reason, std::span<const uint8_t> private_data);
  /// The queue pair is in RTS after kConnectResponse. No event follows.
  Result Establish(EndpointId id);
  /// IBV_EVENT_COMM_EST: the queue pair has had its first packet. Ends with kEstablished.
  Result NotifyEstablished(EndpointId id);
  /// The queue pair is in error. Ends with kDisconnected, once for each connection, and
  /// kTimewaitExit.
  Result Disconnect(EndpointId id);

  // ---- multicast ----
  /// Ends with kMulticastJoin or kMulticastError. Errors: kWrongState: bound to no device; kNoRoom.
  Result JoinMulticast(EndpointId id, const SocketAddress& group, bool send_only,
                       MembershipId& membership);
  Result LeaveMulticast(EndpointId id, MembershipId membership);

  // ---- queries ----
  Result Query(EndpointId id, EndpointInfo& info) const;
  /// kOk and nothing: there is no route yet.
  Result QueryPath(EndpointId id, std::optional<PathRecord>& path) const;
  /// What ibv_modify_qp needs to bring the queue pair to `state`: IBV_QPS_INIT once the endpoint
  /// has a device, RTR and RTS once the peer is known.
  Result InitQueuePair(EndpointId id, ibv_qp_state state, QueuePairAttributes& attributes) const;

 private:
  friend class Service;
  Client(ServiceImpl& service, uint32_t number) : service_(service), number_(number) {}

  /// Calls `call` with the endpoint, and has the service pass on what has come of it.
  template <typename Call>
  Result With(EndpointId id, Call call);

  ServiceImpl& service_;
  const uint32_t number_;
};

}  // namespace uroce::nic::rdma_cm
