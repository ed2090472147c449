// SPDX-License-Identifier: Apache-2.0
// rdma_cm for programs: endpoints (rdma_cm_ids) with addresses, routes and connections, above the
// connection manager. Pure: the daemon is behind an Environment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nic/cm/manager.h"
#include "nic/rdma_cm/types.h"

namespace uroce::nic::rdma_cm {

struct ServiceConfig {
  cm::Config manager;
  /// Limits of endpoints, including what remains of their connections after they end: time wait, a
  /// DREQ that waits for its answer.
  uint32_t endpoints_per_program = 16384;
  uint32_t endpoints_per_user = 32768;
  uint32_t joins_per_program = 256;  ///< Multicast groups.
  uint32_t joins_per_user = 512;
  /// Time code within which each side must answer; otherwise messages are repeated. As Linux's.
  uint8_t cm_response_timeout = 20;
  /// Lower ports are for privileged programs, as in net.ipv4.ip_unprivileged_port_start.
  uint16_t first_unprivileged_port = 1024;
};

/// The program that the endpoints belong to.
struct Owner {
  uint32_t client = 0;  ///< Shown by `uroce cm`; not used here.
  uint32_t uid = 0;
  bool is_privileged = false;
};

class Client;
class ServiceImpl;

/// One thread, the control thread.
class Service {
 public:
  Service(const ServiceConfig& config, Environment& environment, cm::RandomSource random);
  /// All clients must be destroyed before.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Called for each event of the program's endpoints, in order, as it arises: also from within
  /// calls of the client. The handler must not call the client; it queues the event.
  using EventHandler = std::function<void(const Event&)>;
  /// Whether a queue pair belongs to the program.
  using HasQueuePair = std::function<bool(Qpn)>;
  /// Adds a program. Destroying the client destroys all its endpoints and tells their peers.
  std::unique_ptr<Client> AddClient(const Owner& owner, HasQueuePair has_queue_pair,
                                    EventHandler handler);

  /// Takes a MAD that the GSI of a device received. `route`: see cm::Manager::OnMad.
  void OnMad(const cm::Route& route, std::span<const uint8_t> mad);
  /// Call it at the time set by Environment::SetDeadline.
  void OnDeadline();
  /// The device and its addresses are gone: its endpoints get kDeviceRemoval.
  void OnDeviceGone(uint32_t device);
  /// The device's MAC has changed: its endpoints get kAddressChange, and continue.
  void OnMacChange(uint32_t device);

  /// Whether messages still wait to be sent or answered, after all clients are gone.
  bool has_farewells() const;
  const cm::Counters& counters() const;
  /// The connection manager's communications, including those in time wait, and its bindings.
  size_t communications() const;
  size_t bindings() const;
  /// Datagrams dropped because there was no room for too long.
  uint64_t unsent_dropped() const;
  /// For dumps: calls `visit` for each endpoint of each program, in no order.
  void ForEach(
      const std::function<void(const Owner&, EndpointId, const EndpointInfo&)>& visit) const;

 private:
  std::unique_ptr<ServiceImpl> impl_;
};

/// The endpoints of one program. Calls return kOk, or why nothing has changed (ErrnoOf). Long
/// operations end with an event. Each call may return kNoSuchId: no endpoint of this program.
class Client {
 public:
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// `qp_type`: IBV_QPT_RC, UC, UD, or an XRC type. Errors: kNoRoom; kNotSupported: the port space
  /// (kIpoib) or the queue pair type.
  Result Create(wire::PortSpace space, ibv_qp_type qp_type, EndpointId& id);
  /// Destroys the endpoint in any state; the peer is told. Requests to a listener that were not
  /// taken (TakeRequest) are destroyed with it, with the endpoints of their events. No event of any
  /// of them follows.
  Result Destroy(EndpointId id);

  // ---- options, set before they take effect; see rdma_set_option ----
  Result SetTypeOfService(EndpointId id, uint8_t tos);
  Result SetReuseAddress(EndpointId id, bool on);
  /// Whether an IPv6 wildcard excludes IPv4.
  Result SetOwnFamilyOnly(EndpointId id, bool on);
  /// The queue pair's ACK timeout. `code`: 0 to 31.
  Result SetAckTimeout(EndpointId id, uint8_t code);

  // ---- addresses ----
  /// Binds an address. A loopback address belongs to no device, like a wildcard; a listener there
  /// is reachable from this host only, at the addresses of all its devices. Errors: kNotPermitted:
  /// the port; kAddressInUse, kAddressNotAvailable: also if no device has the address.
  Result Bind(EndpointId id, const SocketAddress& address);
  /// Ends with kAddressResolved or kAddressError (-ETIMEDOUT, -ENODEV, -ENETUNREACH). `source`:
  /// null, or the address to bind to first. `timeout`: for the neighbour's answer. A loopback
  /// address or a wildcard leads to a listener on any of the host's devices; the endpoint then has
  /// these devices' addresses. Errors: kNoRoute, and those of Bind; kInvalid also: from a loopback
  /// address to another host.
  Result ResolveAddress(EndpointId id, const SocketAddress* source,
                        const SocketAddress& destination, Nanos timeout);
  /// Ends with kRouteResolved: RoCE has no subnet manager to ask.
  Result ResolveRoute(EndpointId id);

  // ---- connections and services of datagrams ----
  /// Binds an endpoint that is not bound. `backlog`: requests that may wait for TakeRequest; others
  /// are dropped, and peers repeat them. 0 counts as 1024, which is also the maximum.
  Result Listen(EndpointId id, uint32_t backlog);
  /// The program has received the kConnectRequest whose event had this `id`.
  Result TakeRequest(EndpointId id);
  /// Connects to the resolved address. Ends with kConnectResponse (for datagrams: kEstablished),
  /// kRejected or kUnreachable. Errors: kInvalid: the queue pair is not the program's; peers would
  /// mistake it for another program's. The kernel accepts any number.
  Result Connect(EndpointId id, const ConnectionParameters& parameters);
  /// Accepts a request; ends with kEstablished (not for datagrams), kRejected or kUnreachable. The
  /// queue pair must be in RTS. Errors: as for Connect.
  Result Accept(EndpointId id, const ConnectionParameters& parameters);
  /// Rejects a request, or after kConnectResponse the connection. `reason`: 0 or 28 (consumer
  /// defined), 35 (vendor option). Errors: kInvalid: another reason.
  Result Reject(EndpointId id, uint8_t reason, std::span<const uint8_t> private_data);
  /// Call it after kConnectResponse, with the queue pair in RTS. No event follows.
  Result Establish(EndpointId id);
  /// IBV_EVENT_COMM_EST: the queue pair received its first packet. Ends with kEstablished.
  Result NotifyEstablished(EndpointId id);
  /// Disconnects; the queue pair must be in error. Ends with kDisconnected, once for each
  /// connection, and kTimewaitExit.
  Result Disconnect(EndpointId id);

  // ---- multicast ----
  /// Ends with kMulticastJoin or kMulticastError. Errors: kWrongState: no device bound; kNoRoom.
  Result JoinMulticast(EndpointId id, const SocketAddress& group, bool send_only,
                       MembershipId& membership);
  Result LeaveMulticast(EndpointId id, MembershipId membership);

  // ---- queries ----
  Result Query(EndpointId id, EndpointInfo& info) const;
  /// Returns kOk and no path while there is no route.
  Result QueryPath(EndpointId id, std::optional<PathRecord>& path) const;
  /// The attributes for ibv_modify_qp to move the queue pair to `state`: IBV_QPS_INIT once the
  /// endpoint has a device, RTR and RTS once the peer is known.
  Result InitQueuePair(EndpointId id, ibv_qp_state state, QueuePairAttributes& attributes) const;

 private:
  friend class Service;
  Client(ServiceImpl& service, uint32_t number) : service_(service), number_(number) {}

  /// Calls `call` with the endpoint; then the service sends the resulting events and messages.
  template <typename Call>
  Result With(EndpointId id, Call call);

  ServiceImpl& service_;
  const uint32_t number_;
};

}  // namespace uroce::nic::rdma_cm
