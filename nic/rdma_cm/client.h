// SPDX-License-Identifier: Apache-2.0
// The calls of one program on its endpoints: those of librdmacm (rdma_create_id and so on). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "nic/rdma_cm/service.h"
#include "nic/rdma_cm/types.h"

namespace uroce::nic::rdma_cm {

/// Whether a queue pair belongs to the program.
using HasQueuePair = std::function<bool(Qpn)>;

/// The endpoints of one program. Calls return kOk, or why nothing has changed (ErrnoOf). Long
/// operations end with an event. Each call may return kNoSuchId: no endpoint of this program.
class Client {
 public:
  /// Adds a program to the service.
  Client(Service& service, const Owner& owner, HasQueuePair has_queue_pair, EventHandler handler);
  /// Destroys all endpoints of the program and tells their peers.
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
  /// are rejected (kConsumerDefined). 0 counts as 1024, which is also the maximum.
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
  /// Calls `call` with the endpoint; then the service sends the resulting events and messages.
  template <typename Call>
  Result With(EndpointId id, Call call);

  // Addresses and routes.
  Result Bind(Endpoint& endpoint, const SocketAddress& address);
  Result ResolveAddress(Endpoint& endpoint, const SocketAddress* source,
                        const SocketAddress& destination, Nanos timeout);
  /// The source that the endpoint is bound to, or the one that the route suggests.
  Result ChooseSource(const Endpoint& endpoint, const SocketAddress& destination,
                      Attachment& source);
  /// Replaces an address of this host as a whole by an address of a device.
  Result ChooseDestination(const Endpoint& endpoint, SocketAddress& destination);
  void OnNeighbour(EndpointId id, const Attachment& source, int error);
  Result ResolveRoute(Endpoint& endpoint);
  PathRecord PathOf(const Endpoint& endpoint) const;

  // Multicast.
  Result JoinMulticast(Endpoint& endpoint, const SocketAddress& group, bool send_only,
                       MembershipId& membership);
  Event JoinEvent(const Endpoint& endpoint, MembershipId membership, const Gid& group) const;
  Result LeaveMulticast(Endpoint& endpoint, MembershipId membership);

  // Listeners and connections.
  Result Listen(Endpoint& endpoint, uint32_t backlog);
  Result TakeRequest(Endpoint& endpoint);
  Result Connect(Endpoint& endpoint, const ConnectionParameters& parameters);
  Result SendReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                 cm::CommId& comm);
  Result SendSidrReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                     cm::CommId& comm);
  static cm::Route RouteOf(const Endpoint& endpoint);
  cm::QueuePairParameters QueuePairOf(const Endpoint& endpoint,
                                      const ConnectionParameters& parameters) const;
  Result Accept(Endpoint& endpoint, const ConnectionParameters& parameters);
  Result Reject(Endpoint& endpoint, uint8_t reason, std::span<const uint8_t> private_data);
  Result Disconnect(const Endpoint& endpoint);

  Service& service_;
  const ServiceConfig& config_;
  Environment& environment_;
  cm::Manager& manager_;
  EndpointTable& endpoints_;
  const HasQueuePair has_queue_pair_;
  const uint32_t number_;  ///< Of the program, in the table.
};

}  // namespace uroce::nic::rdma_cm
