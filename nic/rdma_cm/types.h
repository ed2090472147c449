// SPDX-License-Identifier: Apache-2.0
// Arguments and events of rdma_cm's service, as values. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "nic/cm/connection.h"
#include "nic/cm/types.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/cm/rdma_cm_header.h"

namespace uroce::nic::rdma_cm {

using cm::Result;

/// Number of an endpoint, which programs call an rdma_cm_id; 0 is none. It is unique in the daemon,
/// and not reused soon.
enum class EndpointId : uint32_t {};
/// Number of an endpoint's membership in a multicast group; 0 is none.
enum class MembershipId : uint32_t {};

/// An address and port, as in a sockaddr.
struct SocketAddress {
  Gid address;              ///< IPv4 as ::ffff:a.b.c.d. All zeros behind that, or at all: any.
  uint16_t port = 0;        ///< Host order. 0: any.
  uint32_t flow_label = 0;  ///< IPv6: 20 bits, host order.
  uint32_t scope_id = 0;    ///< Of a link-local address: the kernel's index of the interface.
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

/// The program's bytes in a message.   Range: the room in the message, see cm::k...PrivateBytes.
struct PrivateData {
  static constexpr size_t kMost = 224;
  std::array<uint8_t, kMost> bytes{};
  uint8_t size = 0;

  PrivateData() = default;
  /// Copies as much of `data` as fits.
  explicit PrivateData(std::span<const uint8_t> data);
  std::span<const uint8_t> span() const { return {bytes.data(), size}; }
};

/// The values of rdma_conn_param, in Connect and Accept and in events from the peer.
struct ConnectionParameters {
  uint8_t responder_resources = 0;  ///< READs and atomics that this side serves at once.
  uint8_t initiator_depth = 0;      ///< READs and atomics that this side has outstanding.
  bool flow_control = false;
  uint8_t retry_count = 7;      ///< More counts as 7. Connect alone.
  uint8_t rnr_retry_count = 7;  ///< More counts as 7.
  bool srq = false;
  Qpn qpn;
  uint32_t qkey = 0;  ///< For Accept of a datagram service; 0: that of rdma_cm.
  PrivateData private_data;
};

/// How datagrams reach the peer, or a multicast group.
struct DatagramParameters {
  Qpn qpn;
  uint32_t qkey = 0;
  ibv_ah_attr address{};  ///< Relative to the endpoint's device.
};

/// The numbers of enum rdma_cm_event_type.
enum class EventKind : uint8_t {
  kAddressResolved = 0,
  kAddressError = 1,
  kRouteResolved = 2,
  kRouteError = 3,
  kConnectRequest = 4,
  kConnectResponse = 5,  ///< The peer has accepted: move the queue pair, then Establish.
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kMulticastError = 13,
  kAddressChange = 14,
  kTimewaitExit = 15,
};

/// One event for a program.
struct Event {
  EventKind kind = EventKind::kAddressResolved;
  EndpointId id{};            ///< For a request: a new endpoint of the same program.
  EndpointId listener{};      ///< For a request: the listener.
  MembershipId membership{};  ///< For the multicast kinds.
  /// As rdma_cm_event::status: 0, a negative errno, the reason of a REJ, or the status of a
  /// SIDR_REP.
  int status = 0;
  bool is_datagram = false;  ///< Which of the next two fields is valid, if any.
  ConnectionParameters connection;
  DatagramParameters datagram;  ///< kEstablished of a datagram service, and kMulticastJoin.
  PrivateData private_data;     ///< The whole field of the message, as Linux gives it.
};

/// The route to the peer, in the form of a path record.
struct PathRecord {
  Gid source;
  Gid destination;
  uint32_t flow_label = 0;  ///< 20 bits.
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  uint8_t sl = 0;
  uint8_t mtu = 0;               ///< enum ibv_mtu.
  uint8_t rate = 0;              ///< 0: the port's own.
  uint8_t packet_life_time = 0;  ///< Code.
  uint16_t pkey = 0xffff;
};

/// rdma_cm's own states.
enum class State : uint8_t {
  kIdle,
  kAddressQuery,
  kAddressResolved,
  kRouteQuery,
  kRouteResolved,
  kConnect,  ///< From Connect, or the request, until Disconnect or the end of the connection.
  kDisconnect,
  kAddressBound,
  kListen,
  kDeviceGone,
};

/// The properties of an endpoint that queries return.
struct EndpointInfo {
  wire::PortSpace space = wire::PortSpace::kTcp;
  ibv_qp_type qp_type = IBV_QPT_RC;
  State state = State::kIdle;
  SocketAddress local;   ///< Any address and port 0 before they are known.
  SocketAddress remote;  ///< Likewise.
  /// Index among the daemon's devices, once the endpoint is bound to one.
  std::optional<uint32_t> device;
  cm::State connection = cm::State::kIdle;  ///< In kConnect and kDisconnect, not for datagrams.
  cm::CommId comm_id;                       ///< 0: nothing was sent or received yet.
  cm::CommId remote_comm_id;
  Qpn qpn;
  Qpn remote_qpn;
};

/// The attributes for ibv_modify_qp, and their mask.
struct QueuePairAttributes {
  ibv_qp_attr attr{};
  int mask = 0;
};

/// The errno that rdma_cm's calls return for `result`; 0 for kOk.
int ErrnoOf(Result result);

}  // namespace uroce::nic::rdma_cm
