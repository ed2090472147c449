// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of the connection manager, as values: parameters, routes, events, datagrams,
// counters. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "pipeline/base/limits.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/cm/codec.h"
#include "pipeline/wire/cm/message.h"
#include "pipeline/wire/cm/rdma_cm_header.h"
#include "pipeline/wire/packet.h"

namespace uroce::nic::cm {

using wire::CommId;

/// Names a bound address and port of this host; 0 names none.
enum class BindingId : uint32_t {};

/// The two ends of a message's way, and the fields of its IP header.
struct Route {
  uint32_t device = 0;  ///< The caller's number of the device, see RouteDevice.
  Gid local;
  Gid remote;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint8_t sl = 0;
  uint32_t flow_label = 0;  ///< 20 bits.
  /// For a received message: the MAC that sent its frame, the next hop of the way back. Answers
  /// that leave no state behind go to this MAC, without neighbour resolution. All others go to the
  /// MAC that the network resolves: only then does an address prove who speaks.
  std::optional<Mac> frame_source;
};

/// Route::device for a VLAN of the daemon's device `device`, and the inverse functions.
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

/// The result of a call.
enum class Result : uint8_t {
  kOk,
  kNoSuchId,
  kWrongState,           ///< The state of the id does not allow it; nothing has changed.
  kNoRoom,               ///< A limit is reached, see Config.
  kAddressInUse,         ///< The address and port are in use.
  kAddressNotAvailable,  ///< They are in use, and one of the two is a wildcard.
  kTooLong,              ///< The private data does not fit the message.
  kInvalid,              ///< An argument has an invalid value.
  kNotPermitted,         ///< Only privileged programs may do it.
  kNotSupported,
  kNoRoute,   ///< There is no route to the destination.
  kNoDevice,  ///< The route leads through no device of the daemon.
};

enum class EventKind : uint8_t {
  kConnectRequest,  ///< A REQ for a listener; the id is new, and `message` the REQ.
  kConnectReply,    ///< The REP to our REQ. Move the queue pair to RTS, then Establish.
  kEstablished,     ///< Passive side: an RTU, or the first packet of the queue pair.
  kRejected,        ///< `message` is the REJ.
  kUnreachable,     ///< All transmissions were sent without an answer.
  kDisconnected,    ///< By the peer or by us; raised once. `timed_out`: the peer did not answer.
  kTimewaitExit,    ///< The queue pair's number may be reused.
  kDeviceRemoved,
  kResolveRequest,  ///< A SIDR_REQ for a listener; the id is new.
  kResolved,        ///< The SIDR_REP, with any status.
};

/// One event for a program.
struct Event {
  EventKind kind = EventKind::kConnectRequest;
  CommId id;
  BindingId listener{};  ///< For requests.
  bool timed_out = false;
  Route route;
  wire::RdmaCmHeader header;  ///< For requests: addresses and port of the peer.
  wire::CmMessage message;    ///< The message behind the event; valid where the kind says so.
};

/// Room for the program's private data in each message, in bytes.
inline constexpr size_t kConnectPrivateBytes = 92 - wire::kRdmaCmHeaderBytes;
inline constexpr size_t kAcceptPrivateBytes = 196;
inline constexpr size_t kRejectPrivateBytes = 148;
inline constexpr size_t kResolvePrivateBytes = 216 - wire::kRdmaCmHeaderBytes;
inline constexpr size_t kAnswerPrivateBytes = 136;

/// What a queue pair contributes to its connection.
struct QueuePairParameters {
  Qpn qpn;
  wire::Psn starting_psn;      ///< Random: the first PSN that this side expects to receive.
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
  uint8_t packet_life_time = 18;    ///< Code; Linux 6.1 assumes it for RoCE.
  uint8_t local_ca_ack_delay = 15;  ///< Code, of the device.
  wire::RdmaCmService service;
  uint16_t source_port = 0;
  wire::CmTransport transport = wire::CmTransport::kRc;
  bool xrc = false;
  QueuePairParameters qp;
  uint8_t retry_count = 7;                  ///< 0 .. 7.
  uint8_t cm_response_timeout = 20;         ///< Code, for both sides.
  uint8_t max_cm_retries = 15;              ///< 0 .. 15; one transmission more is sent.
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

/// The attributes that both sides of a connection have agreed on, named as in ibv_modify_qp. The
/// own PSN is `starting_psn`; the program chooses min_rnr_timer and access.
/// Source: docs/protocol/cm.md, section 5.
struct QueuePairAttributes {
  Qpn dest_qpn;
  wire::Psn sq_psn;      ///< The peer's starting PSN.
  uint8_t path_mtu = 0;  ///< Code of the REQ: the passive side takes it unchanged.
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t timeout = 0;  ///< Code.
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;
  friend bool operator==(const QueuePairAttributes&, const QueuePairAttributes&) = default;
};

// ---- outputs ----

/// Written by one thread, that of the connection manager.
struct Counters {
  std::array<uint64_t, wire::kCmAttributeCount> received{};
  std::array<uint64_t, wire::kCmAttributeCount> sent{};
  std::array<uint64_t, wire::kCmDecodeResultCount> decoded{};  ///< MADs by result.
  uint64_t retransmitted = 0;
  uint64_t duplicates = 0;     ///< Messages that were received before.
  uint64_t unknown_id = 0;     ///< Messages for an unknown communication.
  uint64_t wrong_address = 0;  ///< Known ids, but from another sender.
  uint64_t wrong_state = 0;    ///< Messages that the state of their communication does not allow.
  uint64_t stale = 0;          ///< REQs and REPs whose queue pair is already in a connection.
  uint64_t no_listener = 0;
  uint64_t backlog_full = 0;  ///< REQs and SIDR_REQs refused: the listener's backlog is full.
  uint64_t over_rate = 0;     ///< Dropped: requests of one source and repeated REPs to it.
  uint64_t no_room = 0;       ///< Dropped: the limit of communications is reached.
};

/// Messages and events in the order in which they arose. The caller empties it after each call.
struct Outbox {
  explicit Outbox(SourceLimit its_repeats) : repeats(std::move(its_repeats)) {}

  std::deque<Datagram> datagrams;
  std::deque<Event> events;
  Counters counters;
  SourceLimit repeats;  ///< Of REPs, to peers that have shown by no answer that they exist.

  void Send(const Route& route, const wire::CmMessage& message) {
    ++counters.sent[static_cast<size_t>(IndexOf(message.attribute()))];
    datagrams.push_back({route, message});
  }
  void Raise(Event event) { events.push_back(event); }
};

}  // namespace uroce::nic::cm
