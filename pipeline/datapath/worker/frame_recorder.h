// SPDX-License-Identifier: Apache-2.0
// What captures, packet histories and probes record of a packet once its fate is known.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>

#include "pipeline/base/probes.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/device/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/queue_pair_core.h"
#include "pipeline/datapath/thread/timer_wheel.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/port/frame_marks.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/acknowledgement.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

// Annotations: what the transport says of a packet, in the values of captures.

/// The annotation of a frame that is not a packet.
uroce_capture_note AnnotationOf(wire::DecodeResult result);
/// The annotation of a packet that has just arrived: its queue pair and its congestion mark.
uroce_capture_note AnnotationOf(const wire::Packet& packet);
/// Adds the reason why `packet` is sent again, or that it is a NAK.
void AddReason(const transport::TxPacket& packet, uroce_capture_note& annotation);
/// The annotation of a packet that `local` sends.
inline uroce_capture_note AnnotationOf(const transport::TxPacket& packet, Qpn local) {
  uroce_capture_note annotation{.qpn = local.value(), .psn = packet.header.psn.value()};
  const bool is_plain = packet.header.opcode != wire::Opcode::kAcknowledge;
  if (packet.retransmission || !is_plain) AddReason(packet, annotation);
  return annotation;
}
/// Completes the annotation of a request or response that `core` was shown, with `result`, the
/// answer of `core`.
void AddResult(const transport::RcQueuePair& core, bool is_response, transport::PacketResult result,
               uroce_capture_note& annotation);
/// Does the same for a packet of a UC or UD queue pair.
void AddResult(const QueuePairCore& core, transport::ReceiveResult result,
               uroce_capture_note& annotation);
/// Adds that the packet put the queue pair in error.
void AddFailure(const transport::RcQueuePair& core, uroce_capture_note& annotation);

// The probes of packets, for tracers.

/// For an acknowledgement or NAK that `qp` sends or has received.
inline void TraceAcknowledgement(const QueuePair& qp, const wire::TransportHeader& header,
                                 bool is_sent) {
  const uint8_t syndrome = header.aeth.syndrome;
  if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck) {
    probes::Ack(qp.qpn().value(), header.psn.value(), header.aeth.msn, is_sent);
  } else {
    probes::Nak(qp.qpn().value(), header.psn.value(), syndrome, is_sent);
  }
}

inline void TraceSent(const QueuePair& qp, const transport::TxPacket& packet,
                      uint32_t frame_bytes) {
  const wire::TransportHeader& header = packet.header;
  probes::Send(qp.qpn().value(), header.psn.value(), static_cast<uint32_t>(header.opcode),
               frame_bytes);
  if (packet.retransmission) [[unlikely]] {
    probes::Retransmit(qp.qpn().value(), header.psn.value(),
                       static_cast<uint32_t>(packet.resend.cause), packet.resend.number);
  }
  if (header.opcode == wire::Opcode::kAcknowledge) TraceAcknowledgement(qp, header, true);
}

inline void TraceReceived(const QueuePair& qp, const wire::Packet& packet) {
  probes::Receive(qp.qpn().value(), packet.header.psn.value(),
                  static_cast<uint32_t>(packet.header.opcode),
                  static_cast<uint32_t>(packet.payload.size()));
}

/// For what the transport of `qp` says of a packet. A packet that is kept is not dropped.
void TraceResult(const QueuePair& qp, const wire::Packet& packet, transport::PacketResult result);
void TraceResult(const QueuePair& qp, const wire::Packet& packet, transport::ReceiveResult result);

// The records themselves.

/// Whether a frame is shown to the transport for the first time, or again after it was kept.
enum class Showing : uint8_t { kFirst, kAgain };

/// Owns the captures of a worker and the annotation of the current frame. Order of calls: Begin,
/// then what becomes known of the frame, then one of the Record calls. One thread.
class FrameRecorder {
 public:
  explicit FrameRecorder(TurnTime& time) : taps_(time.clock()) {}

  // ---- captures ----
  /// The captures, for ports, which record what they send.
  Taps& taps() { return taps_; }
  void AddTap(CaptureTap* tap) { taps_.list.push_back(tap); }
  void RemoveTap(CaptureTap* tap);
  void BeginTurn() {
    if (!taps_.list.empty()) taps_.BeginTurn();
  }

  // ---- the annotation of the frame at work ----
  /// Begins a frame: nothing is known of it, or its decoding failed, or it holds `packet`.
  void Begin() { annotation_ = {}; }
  void Begin(wire::DecodeResult result) { annotation_ = AnnotationOf(result); }
  void Begin(const wire::Packet& packet) { annotation_ = AnnotationOf(packet); }
  /// `reason` is UROCE_REASON_*; the meaning of `detail` depends on it.
  void SetReason(uint8_t reason, uint8_t detail = 0) {
    annotation_.reason = reason;
    annotation_.detail = detail;
  }
  /// The rate of the queue pair after the frame, in Mb/s.
  void SetRate(uint32_t mbps) { annotation_.rate_mbps = mbps; }
  /// Counts that the frame is dropped, and notes why. Returns false.
  bool Drop(std::atomic<uint64_t>& counter, uint8_t reason, uint8_t detail = 0) {
    Count(counter);
    SetReason(reason, detail);
    TraceDrop();
    return false;
  }
  /// Tells tracers that the frame is dropped, for the reason that is noted.
  void TraceDrop() const {
    probes::Drop(annotation_.qpn, annotation_.psn, annotation_.reason, annotation_.detail);
  }

  // ---- received frames ----
  /// Gives a frame to the captures.
  void Record(DevicePort& port, const rte_mbuf* frame) {
    if (taps_.list.empty() || mark_.IsSet(*frame)) return;
    pending_.Fill(*frame);
    taps_.Add(port.device().index(), UROCE_CAPTURE_INBOUND, frame, annotation_);
  }
  /// Whether the packets of `qp` are recorded at all: callers check it before the calls below.
  bool IsRecorded(const QueuePair& qp) const {
    return !taps_.list.empty() || qp.history() != nullptr;
  }
  /// Records a packet that the transport of `qp` was shown; `result` completes the annotation.
  /// `had_failed`: the queue pair was in error before. A kept packet is recorded when it comes, and
  /// again only if it makes the queue pair fail.
  void RecordResult(QueuePair& qp, const wire::Packet& packet, transport::PacketResult result,
                    bool had_failed, const rte_mbuf* frame, Showing showing);
  void RecordUnreliable(QueuePair& qp, transport::ReceiveResult result, const rte_mbuf* frame);
  /// Records a packet that the transport was not shown.
  void RecordBadState(QueuePair& qp, const rte_mbuf* frame);
  /// Records a frame that waited behind `qp` and is dropped for `reason`.
  void RecordAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame);

  // ---- sent frames ----
  /// Adds a packet to the history of `qp`, and returns what captures are to say of it.
  uroce_capture_note AnnotateSent(QueuePair& qp, const transport::TxPacket& packet,
                                  const rte_mbuf* frame) {
    if (!IsRecorded(qp)) return {};
    const uroce_capture_note annotation = AnnotationOf(packet, qp.qpn());
    if (qp.history() != nullptr) AddToHistory(qp, UROCE_CAPTURE_OUTBOUND, frame, annotation);
    return annotation;
  }

 private:
  void RecordWithHistory(QueuePair& qp, const rte_mbuf* frame);
  void AddToHistory(QueuePair& qp, uint16_t direction, const rte_mbuf* frame,
                    const uroce_capture_note& annotation);

  const MulticastMark mark_;
  const drivers::PendingIcrc pending_;
  Taps taps_;
  uroce_capture_note annotation_{};
};

}  // namespace uroce::datapath
