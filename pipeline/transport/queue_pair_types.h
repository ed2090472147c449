// SPDX-License-Identifier: Apache-2.0
// States, attributes, configuration, counters and events of queue pairs of all services.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Values are those of ibv_qp_state.
enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kErr = 6,
};

/// The attributes of ibv_modify_qp that the transport uses. Each service reads those that apply to
/// it. The shell has checked states, masks and ranges.
struct QueuePairAttributes {
  bool remote_write = false;
  bool remote_read = false;
  bool remote_atomic = false;
  uint32_t path_mtu_bytes = 1024;  ///< UD: the port's MTU.
  wire::Psn rq_psn;
  wire::Psn sq_psn;
  uint8_t max_rd_atomic = 0;       ///< READs and atomics that this side may have outstanding.
  uint8_t max_dest_rd_atomic = 0;  ///< READs and atomics that the peer may have outstanding.
  uint8_t min_rnr_timer = 0;       ///< Code 0..31 sent in RNR NAKs.
  uint8_t timeout = 0;             ///< Local ACK timeout code 0..31, 0 = none.
  uint8_t retry_count = 0;         ///< 0..7.
  uint8_t rnr_retry = 0;           ///< 0..7, 7 = without limit.
  uint32_t qkey = 0;               ///< UD.
  bool notify_drained = false;     ///< Raise SQ_DRAINED once when SQD has drained.
  /// The NIC at the other end has agreed to selective repeat (pipeline/transport/loss-recovery.md).
  bool selective_repeat = false;
  /// The environment of the path's priority, from the next begin of sending on. Null: that of the
  /// queue pair's configuration.
  const congestion::Environment* congestion = nullptr;
};

enum class PostResult : uint8_t { kPosted, kQueueFull };

/// Asynchronous events. Values are those of ibv_event_type.
enum class QpEvent : uint8_t {
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kLastWqeReached = 16,
};

/// The asynchronous events of a queue pair that the shell has not polled yet. An event that is
/// raised again before it was polled is reported once.
class EventSet {
 public:
  void Raise(QpEvent event) { bits_ |= Bit(event); }
  void Clear() { bits_ = 0; }
  [[nodiscard]] bool Poll(QpEvent& event) {
    if (bits_ == 0) return false;
    event = static_cast<QpEvent>(std::countr_zero(bits_));
    bits_ &= ~Bit(event);
    return true;
  }

 private:
  static constexpr uint32_t Bit(QpEvent event) { return 1u << static_cast<uint8_t>(event); }
  uint32_t bits_ = 0;
};

/// The counters of one queue pair of any service. Their names are those that RDMA users know
/// (docs/protocol/verbs-semantics.md, section 11).
struct QueuePairCounters {
  // Requester.
  uint64_t retransmitted_pkts = 0;
  uint64_t packet_seq_err = 0;         ///< NAK 0x60 received.
  uint64_t implied_nak_seq_err = 0;    ///< An ACK implied that a response was lost.
  uint64_t local_ack_timeout_err = 0;  ///< The ACK timer expired.
  /// Packets sent again before the ACK timer expired, because no response came for some round trips
  /// (pipeline/transport/loss-recovery.md).
  uint64_t tail_loss_probes = 0;
  uint64_t credit_probes = 0;      ///< Messages begun beyond the responder's credits.
  uint64_t rnr_nak_retry_err = 0;  ///< RNR NAKs received that did not exhaust the retries.
  uint64_t retry_exceeded_err = 0;
  uint64_t retry_rnr_exceeded_err = 0;
  uint64_t req_cqe_error = 0;
  uint64_t req_cqe_flush_error = 0;
  uint64_t req_remote_invalid_request = 0;
  uint64_t req_remote_access_errors = 0;
  // Responder.
  uint64_t rx_write_requests = 0;
  uint64_t rx_read_requests = 0;
  uint64_t rx_atomic_requests = 0;
  uint64_t duplicate_request = 0;
  uint64_t out_of_sequence = 0;    ///< Packets behind a hole, dropped.
  uint64_t kept_out_of_order = 0;  ///< Packets behind a hole, kept for their turn.
  uint64_t out_of_buffer = 0;  ///< No receive work: an RNR NAK was sent, or the message dropped.
  uint64_t resp_remote_access_errors = 0;
  uint64_t resp_local_length_error = 0;
  uint64_t resp_cqe_error = 0;
  uint64_t resp_cqe_flush_error = 0;
  // UC and UD.
  uint64_t qkey_viol = 0;         ///< UD: datagrams dropped because of their Q_Key.
  uint64_t dropped_messages = 0;  ///< Dropped although there was a receive work.
};

// ---- reliable connections: what requester, responder and shell share ----

/// Which halves of a connection exist at this end. XRC has one half at each end.
enum class RcRole : uint8_t { kBoth, kInitiator, kTarget };

/// What is fixed when the queue pair is created.
struct RcConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;         ///< Works that Post may hold at once; a power of two.
  uint8_t max_responder_resources = 16;  ///< Upper bound of max_dest_rd_atomic.
  /// The most request packets in flight. A READ counts as one: max_rd_atomic bounds the responses.
  /// With a responder that agrees to selective repeat, the window may grow beyond this
  /// (pipeline/congestion/flow.h).
  uint32_t max_in_flight_packets = 256;
  /// Receive works come from a shared receive queue.
  bool shared_receive = false;
  /// kXrc: an end of an extended reliable connection.
  wire::Service service = wire::Service::kRc;
  RcRole role = RcRole::kBoth;
  /// Repeat lost packets alone where the peer agrees to (pipeline/transport/loss-recovery.md).
  bool selective_repeat = false;
  /// Not owned, outlives the queue pair. Null: losses alone bound what is in flight.
  const congestion::Environment* congestion = nullptr;
};

/// Whether the shared receive queue that a request names is in the domain of its XRC target. A
/// request that names another one is refused when its PSN is ePSN.
enum class SrqAccess : uint8_t { kGranted, kDenied };

/// What a requester knows to be lost: its requests, or the responses to them.
struct Losses {
  bool requests = false;
  bool responses = false;
  bool any() const { return requests || responses; }
};

/// What became of an arriving packet. The shell counts each result but kAccepted too.
enum class PacketResult : uint8_t {
  kAccepted,          ///< Executed, or an effect is under way.
  kDuplicate,         ///< Executed before: answered again where the protocol says so.
  kOutOfSequence,     ///< Dropped behind a gap. A NAK is due, or was sent before.
  kKept,              ///< Behind a gap: kept until its turn, if the shell has room.
  kReceiverNotReady,  ///< RNR NAK.
  kNak,               ///< Refused with a fatal NAK (or by a failed check: error state).
  kGhost,             ///< A response that nothing waits for.
  kBadState,          ///< The queue pair takes no such packet in its state.
  kMalformed,         ///< A response that cannot be right and is ignored.
};

// ---- unreliable connections (UC) and datagrams (UD) ----

/// What is fixed when the queue pair is created.
struct UnreliableConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;  ///< Works that Post may hold at once; a power of two.
  bool shared_receive = false;    ///< Receive works come from a shared receive queue.
  Qpn qpn;                        ///< UD: the source QPN of sent datagrams.
};

/// What became of an arriving packet. No packet is ever answered.
enum class ReceiveResult : uint8_t {
  kAccepted,       ///< Executed, or an effect is under way.
  kBadState,       ///< The queue pair takes no packets in its state.
  kMalformed,      ///< Of another service, or no request of this service.
  kOutOfSequence,  ///< UC: a gap, or not the rest of a message: dropped up to the next FIRST or
                   ///< ONLY.
  kNoReceive,      ///< The message is dropped: no receive work.
  kTooLong,        ///< The message is dropped: longer than its receive work.
  kRefused,        ///< UC: the message is dropped: a length, a right or a key is wrong.
  kBadQkey,        ///< UD: dropped.
  kFailed,         ///< The receive work is malformed: the queue pair is in ERR.
};

}  // namespace uroce::transport
