// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of the connection manager, as values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/cm/message.h"
#include "pipeline/wire/cm/rdma_cm_header.h"
#include "pipeline/wire/psn.h"

namespace uroce::nic::cm {

using wire::CommId;

/// A bound address and port of this host; 0 is none.
enum class BindingId : uint32_t {};

/// Between which ends messages go, and what their IP headers carry.
struct Route {
  uint32_t device = 0;  ///< The caller's own number of it, see RouteDevice.
  Gid local;
  Gid remote;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint8_t sl = 0;
  uint32_t flow_label = 0;  ///< 20 bits.
  /// Of a message that has come: who sent its frame, the next hop on the way back. What is not
  /// remembered is answered there without asking for the peer; what is goes to whom the network
  /// names: only so an address is evidence of who speaks.
  std::optional<Mac> frame_source;
};

/// Route::device of a VLAN of the daemon's device `device`, and back.
constexpr uint32_t RouteDevice(uint32_t device, uint16_t vlan_id) {
  return device | uint32_t{vlan_id} << 16;
}
constexpr uint32_t DeviceOf(const Route& route) { return route.device & 0xffff; }
constexpr uint16_t VlanOf(const Route& route) { return static_cast<uint16_t>(route.device >> 16); }

/// A message to send, as one GSI datagram.
struct Datagram {
  Route route;
  wire::CmMessage message;
};

/// What became of a call.
enum class Result : uint8_t {
  kOk,
  kNoSuchId,
  kWrongState,           ///< The state of the id does not allow it; nothing has changed.
  kNoRoom,               ///< As many as there may be, see Config.
  kAddressInUse,         ///< Somebody has that address and port.
  kAddressNotAvailable,  ///< The same, one of the two being a wildcard.
  kTooLong,              ///< More private data than the message holds.
  kInvalid,              ///< An argument that nobody can mean.
  kNotPermitted,         ///< The unprivileged may not.
  kNotSupported,
  kNoRoute,   ///< To the destination.
  kNoDevice,  ///< The way there is none of ours.
};

enum class EventKind : uint8_t {
  kConnectRequest,  ///< A REQ for a listener; the id is new, and `message` the REQ.
  kConnectReply,    ///< The REP to our REQ. Move the queue pair to RTS, then Establish.
  kEstablished,     ///< The passive side's: an RTU, or the first packet of the queue pair.
  kRejected,        ///< `message` is the REJ.
  kUnreachable,     ///< All transmissions spent.
  kDisconnected,    ///< By the peer or by us, once; `timed_out`: the peer did not answer.
  kTimewaitExit,    ///< The queue pair's number may be used again.
  kDeviceRemoved,
  kResolveRequest,  ///< A SIDR_REQ for a listener; the id is new.
  kResolved,        ///< The SIDR_REP, whatever its status.
};

/// Something that a program is told.
struct Event {
  EventKind kind = EventKind::kConnectRequest;
  CommId id;
  BindingId listener{};  ///< Of requests.
  bool timed_out = false;
  Route route;
  wire::RdmaCmHeader header;  ///< Of requests: addresses and port of the other side.
  wire::CmMessage message;    ///< That brought it; of use where the kind says so.
};

/// Room for the program's private data in each message, in bytes.
inline constexpr size_t kConnectPrivateBytes = 92 - wire::kRdmaCmHeaderBytes;
inline constexpr size_t kAcceptPrivateBytes = 196;
inline constexpr size_t kRejectPrivateBytes = 148;
inline constexpr size_t kResolvePrivateBytes = 216 - wire::kRdmaCmHeaderBytes;
inline constexpr size_t kAnswerPrivateBytes = 136;

/// What a queue pair brings into its connection.
struct QueuePairParameters {
  Qpn qpn;
  wire::Psn starting_psn;      ///< Random: what this side expects to receive first.
  uint64_t local_ca_guid = 0;  ///< Of the device.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t rnr_retry_count = 7;  ///< 0 .. 7.
  bool end_to_end_flow_control = false;
  bool srq = false;
};

struct ConnectParameters {
  Route route;
  uint8_t path_mtu = 3;             ///< Code, 1 (256 bytes) to 5 (4096).
  uint8_t packet_life_time = 18;    ///< Code; what Linux 6.1 assumes of RoCE.
  uint8_t local_ca_ack_delay = 15;  ///< Code, of the device.
  wire::RdmaCmService service;
  uint16_t source_port = 0;
  wire::CmTransport transport = wire::CmTransport::kRc;
  bool xrc = false;
  QueuePairParameters qp;
  uint8_t retry_count = 7;                  ///< 0 .. 7.
  uint8_t cm_response_timeout = 20;         ///< Code, for both sides.
  uint8_t max_cm_retries = 15;              ///< 0 .. 15; one transmission more.
  std::span<const uint8_t> private_data{};  ///< Up to kConnectPrivateBytes.
};

struct AcceptParameters {
  QueuePairParameters qp;
  uint8_t target_ack_delay = 15;            ///< Code, of the device.
  std::span<const uint8_t> private_data{};  ///< Up to kAcceptPrivateBytes.
};

struct ResolveParameters {
  Route route;
  wire::RdmaCmService service;
  uint16_t source_port = 0;
  uint8_t cm_response_timeout = 20;
  uint8_t max_cm_retries = 15;
  std::span<const uint8_t> private_data{};  ///< Up to kResolvePrivateBytes.
};

struct ResolveAnswer {
  wire::SidrStatus status = wire::SidrStatus::kValid;
  Qpn qpn;
  uint32_t qkey = 0;
  std::span<const uint8_t> private_data{};  ///< Up to kAnswerPrivateBytes.
};

/// The attributes of a connected queue pair that both sides have agreed on, as ibv_modify_qp calls
/// them. Its own PSN is the program's `starting_psn`; min_rnr_timer and access are the program's.
/// Source: docs/protocol/cm.md, section 5.
struct QueuePairAttributes {
  Qpn dest_qpn;
  wire::Psn sq_psn;      ///< The peer's starting PSN.
  uint8_t path_mtu = 0;  ///< Code, the REQ's: the passive side takes it as it is.
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t timeout = 0;  ///< Code.
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;
  friend bool operator==(const QueuePairAttributes&, const QueuePairAttributes&) = default;
};

}  // namespace uroce::nic::cm
