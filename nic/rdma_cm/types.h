// SPDX-License-Identifier: Apache-2.0
// What rdma_cm's service exchanges with programs, as values, and the interface by which it reaches
// the daemon. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "nic/cm/connection.h"
#include "nic/cm/types.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/cm/rdma_cm_header.h"
#include "pipeline/wire/gsi.h"

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

// ---- the daemon ----

/// The address of a device to which an endpoint is bound.
struct Attachment {
  uint32_t device = 0;  ///< Index among the daemon's devices.
  uint16_t vlan_id = 0;
  Gid address;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

/// The properties of a device that endpoints depend on.
struct DeviceFacts {
  uint64_t node_guid = 0;
  uint8_t active_mtu = 0;  ///< enum ibv_mtu; 0: no packet fits.
  uint8_t ack_delay = 15;  ///< Code.
};

/// Implemented by the daemon, and by tests. Control thread.
class Environment {
 public:
  using LookupId = uint64_t;
  /// `error`: 0, or an errno: ETIMEDOUT, ENETUNREACH.
  using LookupHandler = std::function<void(int error)>;

  virtual ~Environment() = default;
  virtual Nanos Now() = 0;
  /// Sets when Service::OnDeadline is to be called, at the latest soon after; replaces the time set
  /// before. kNever: do not call it.
  virtual void SetDeadline(Nanos when) = 0;

  /// The device that has `address`. `scope_id`: see SocketAddress; 0 if it does not matter.
  virtual std::optional<Attachment> FindAddress(const Gid& address, uint32_t scope_id) = 0;
  /// Chooses the source address for packets of the program `client` (Owner::client) to
  /// `destination` when the program has not. If `destination` is an address of the host as a whole
  /// (cm::IsOfHost), a device's address stands for it. Errors: kNoRoute; kNoDevice: the route leads
  /// by none of the daemon's devices.
  virtual Result ChooseSource(uint32_t client, const Gid& destination, uint32_t scope_id,
                              Attachment& source) = 0;
  /// Resolves the next hop's MAC, on behalf of a program of `user`. The handler is called once,
  /// unless cancelled, and never from within this call.
  virtual LookupId FindNeighbour(const Attachment& source, const Gid& destination, uint32_t user,
                                 Nanos timeout, LookupHandler handler) = 0;
  virtual void Cancel(LookupId lookup) = 0;

  virtual DeviceFacts Facts(uint32_t device) = 0;
  /// Index of the source in the device's GID table; nothing if it was removed.
  virtual std::optional<uint8_t> GidIndex(const Attachment& source) = 0;

  /// Sends one GSI datagram. False: there is no room now; try again a little later. Losses after
  /// that (no neighbour) are counted by the environment.
  [[nodiscard]] virtual bool Send(const cm::Route& route,
                                  const std::array<uint8_t, wire::kMadBytes>& mad) = 0;

  /// Joins a group for a device; joins are counted. Errors: kNotSupported, kNoRoom.
  virtual Result Join(const Attachment& source, const Gid& group) = 0;
  virtual void Leave(const Attachment& source, const Gid& group) = 0;
};

/// The number of a device and VLAN in the connection manager.
constexpr uint32_t RouteDevice(const Attachment& at) {
  return cm::RouteDevice(at.device, at.vlan_id);
}

}  // namespace uroce::nic::rdma_cm
