// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/frame.h"

#include <vector>

#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {
namespace {

using transport::PacketResult;
using transport::QpState;
using transport::ReceiveResult;
using transport::Refusal;
using transport::Resend;
using transport::ResendCause;

// The codes of the ABI are the transport's own.
static_assert(static_cast<int>(Refusal::kInvalidate) == UROCE_REFUSAL_INVALIDATE);
static_assert(static_cast<int>(Refusal::kRemoteKey) == UROCE_REFUSAL_REMOTE_KEY);
static_assert(static_cast<int>(ResendCause::kTailLossProbe) == UROCE_RESEND_TAIL_LOSS_PROBE);
static_assert(Resend::kUnlimited == UROCE_NO_LIMIT);

uint8_t ReasonOf(wire::DecodeClass kind) {
  switch (kind) {
    case wire::DecodeClass::kOk:
      return UROCE_REASON_NONE;
    case wire::DecodeClass::kNotRoce:
      return UROCE_REASON_NOT_ROCE;
    case wire::DecodeClass::kMalformed:
      return UROCE_REASON_MALFORMED;
    case wire::DecodeClass::kUnknownOpcode:
      return UROCE_REASON_BAD_OPCODE;
  }
  return UROCE_REASON_NONE;
}

uint8_t ReasonOf(PacketResult result) {
  switch (result) {
    case PacketResult::kAccepted:
      return UROCE_REASON_NONE;
    case PacketResult::kDuplicate:
      return UROCE_REASON_DUPLICATE;
    case PacketResult::kOutOfSequence:
      return UROCE_REASON_OUT_OF_SEQUENCE;
    case PacketResult::kKept:
      return UROCE_REASON_KEPT;
    case PacketResult::kReceiverNotReady:
      return UROCE_REASON_NOT_READY;
    case PacketResult::kNak:
      return UROCE_REASON_REFUSED;
    case PacketResult::kGhost:
      return UROCE_REASON_GHOST;
    case PacketResult::kBadState:
      return UROCE_REASON_BAD_STATE;
    case PacketResult::kMalformed:
      return UROCE_REASON_MALFORMED;
  }
  return UROCE_REASON_NONE;
}

uint8_t ReasonOf(ReceiveResult result) {
  switch (result) {
    case ReceiveResult::kAccepted:
      return UROCE_REASON_NONE;
    case ReceiveResult::kBadState:
      return UROCE_REASON_BAD_STATE;
    case ReceiveResult::kMalformed:
      return UROCE_REASON_BAD_OPCODE;
    case ReceiveResult::kOutOfSequence:
      return UROCE_REASON_MESSAGE_CUT;
    case ReceiveResult::kNoReceive:
      return UROCE_REASON_NO_RECEIVE;
    case ReceiveResult::kTooLong:
      return UROCE_REASON_TOO_LONG;
    case ReceiveResult::kRefused:
      return UROCE_REASON_MESSAGE_REFUSED;
    case ReceiveResult::kBadQkey:
      return UROCE_REASON_BAD_QKEY;
    case ReceiveResult::kFailed:
      return UROCE_REASON_BAD_RECEIVE;
  }
  return UROCE_REASON_NONE;
}

bool IsNak(const wire::TransportHeader& header) {
  return header.opcode == wire::Opcode::kAcknowledge &&
         (header.aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck;
}

// The annotation of a packet gets the reason why it is sent again, or that it is a NAK.
void AddReason(const transport::TxPacket& packet, uroce_capture_note& annotation) {
  if (wire::InfoOf(packet.header.opcode).Has(wire::OpcodeInfo::kKeptMap)) {
    annotation.reason = UROCE_REASON_SELECTIVE_ACK;
    return;
  }
  if (IsNak(packet.header)) {
    annotation.reason = UROCE_REASON_NAK;
    annotation.number = packet.header.aeth.syndrome;
    return;
  }
  if (!packet.retransmission) return;
  if (transport::IsResponse(packet.header.opcode)) {
    annotation.reason = UROCE_REASON_ANSWERED_AGAIN;
    return;
  }
  annotation.reason = UROCE_REASON_RETRANSMITTED;
  annotation.detail = static_cast<uint8_t>(packet.resend.cause);
  annotation.number = packet.resend.number;
  annotation.limit = packet.resend.limit;
}

// The annotation of a request or response that `core` was shown is completed with its answer.
void AddResult(const transport::RcQueuePair& core, bool is_response, PacketResult result,
               uroce_capture_note& annotation) {
  annotation.reason = ReasonOf(result);
  switch (result) {
    case PacketResult::kAccepted:
    case PacketResult::kGhost:
    case PacketResult::kMalformed:
      return;
    case PacketResult::kBadState:
      annotation.detail = static_cast<uint8_t>(core.state());
      return;
    case PacketResult::kDuplicate:
    case PacketResult::kOutOfSequence:
      if (is_response) {
        annotation.reason = UROCE_REASON_RESPONSE_GAP;
        return;
      }
      annotation.detail = core.request_report().answered ? 1 : 0;
      annotation.expected_psn = core.expected_psn().value();
      return;
    case PacketResult::kKept:
      annotation.expected_psn = core.expected_psn().value();
      return;
    case PacketResult::kReceiverNotReady:
      annotation.number = core.request_report().syndrome & wire::kSyndromeValueMask;
      return;
    case PacketResult::kNak:
      annotation.number = core.request_report().syndrome;
      annotation.detail = static_cast<uint8_t>(core.request_report().refusal);
      return;
  }
}

void AddResult(const QueuePairCore& core, ReceiveResult result, uroce_capture_note& annotation) {
  annotation.reason = ReasonOf(result);
  if (result == ReceiveResult::kBadState) {
    annotation.detail = static_cast<uint8_t>(core.state());
  }
  annotation.expected_psn = core.expected_psn().value();
}

// The packet has put the queue pair in error.
void AddFailure(const transport::RcQueuePair& core, uroce_capture_note& annotation) {
  const transport::Failure failure = core.failure();
  annotation.flags |= UROCE_NOTE_FAILED;
  annotation.status = static_cast<uint8_t>(failure.status);
  // The packet was accepted, and then its effect was refused: a key, or a range.
  if (failure.side != transport::Failure::Side::kResponder) return;
  annotation.reason = UROCE_REASON_REFUSED;
  annotation.number = failure.syndrome;
  annotation.detail = static_cast<uint8_t>(failure.refusal);
}

// The transport counts per queue pair. These count what the device's counters show.
void CountResult(DeviceCounters& counters, PacketResult result) {
  switch (result) {
    case PacketResult::kAccepted:
    case PacketResult::kDuplicate:
    case PacketResult::kOutOfSequence:
    case PacketResult::kKept:
    case PacketResult::kReceiverNotReady:
    case PacketResult::kNak:
      return;
    case PacketResult::kGhost:
      Count(counters.rx_ghost);
      return;
    case PacketResult::kBadState:
      Count(counters.rx_bad_state);
      return;
    case PacketResult::kMalformed:
      Count(counters.rx_malformed);
      return;
  }
}

void CountResult(DeviceCounters& counters, ReceiveResult result) {
  if (result == ReceiveResult::kBadState) Count(counters.rx_bad_state);
  if (result == ReceiveResult::kMalformed) Count(counters.rx_malformed);
}

void CountUndecoded(DeviceCounters& counters, wire::DecodeClass kind) {
  switch (kind) {
    case wire::DecodeClass::kOk:
      return;
    case wire::DecodeClass::kNotRoce:
      Count(counters.rx_not_roce);
      return;
    case wire::DecodeClass::kMalformed:
      Count(counters.rx_malformed);
      return;
    case wire::DecodeClass::kUnknownOpcode:
      Count(counters.rx_bad_opcode);
      return;
  }
}

void TraceDrop(const QueuePair& qp, const wire::Packet& packet,
               const uroce_capture_note& annotation) {
  probes::Drop(qp.qpn().value(), packet.header.psn.value(), annotation.reason, annotation.detail);
}

}  // namespace

void FrameRecorder::RemoveTap(CaptureTap* tap) {
  tap->Publish(kNever);
  std::erase(taps_.list, tap);
}

void FrameRecorder::DropUndecoded(DeviceCounters& counters, wire::DecodeResult result) {
  CountUndecoded(counters, wire::ClassOf(result));
  Begin();
  DropUncounted(ReasonOf(wire::ClassOf(result)), static_cast<uint8_t>(result));
}

void FrameRecorder::OnAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame) {
  probes::Drop(qp.qpn().value(), 0, reason, 0);
  if (taps_.list.empty()) return;
  annotation_ = {};
  annotation_.reason = reason;
  annotation_.qpn = qp.qpn().value();
  Record(qp.port(), frame);
}

// A packet that is kept is not dropped.
void FrameRecorder::OnNotAccepted(const QueuePair& qp, const wire::Packet& packet,
                                  PacketResult result) {
  if (result == PacketResult::kKept) return;
  CountResult(qp.port().counters(), result);
  uroce_capture_note annotation{};
  AddResult(qp.core().reliable(), transport::IsResponse(packet.header.opcode), result, annotation);
  TraceDrop(qp, packet, annotation);
}

void FrameRecorder::OnNotAccepted(const QueuePair& qp, const wire::Packet& packet,
                                  ReceiveResult result) {
  CountResult(qp.port().counters(), result);
  uroce_capture_note annotation{};
  AddResult(qp.core(), result, annotation);
  TraceDrop(qp, packet, annotation);
}

void FrameRecorder::RecordResult(QueuePair& qp, const wire::Packet& packet, PacketResult result,
                                 bool had_failed, const rte_mbuf* frame, Showing showing) {
  const bool fails = !had_failed && qp.core().state() == QpState::kErr;
  if (showing == Showing::kAgain && !fails) return;
  if (result != PacketResult::kAccepted) {
    AddResult(qp.core().reliable(), transport::IsResponse(packet.header.opcode), result,
              annotation_);
  }
  if (fails) AddFailure(qp.core().reliable(), annotation_);
  RecordWithHistory(qp, frame);
}

void FrameRecorder::RecordUnreliable(QueuePair& qp, ReceiveResult result, const rte_mbuf* frame) {
  if (result != ReceiveResult::kAccepted) AddResult(qp.core(), result, annotation_);
  RecordWithHistory(qp, frame);
}

void FrameRecorder::OnBadState(QueuePair& qp, const wire::Packet& packet, const rte_mbuf* frame) {
  uroce_capture_note annotation{};
  AddResult(qp.core(), ReceiveResult::kBadState, annotation);
  TraceDrop(qp, packet, annotation);
  if (!IsRecorded(qp)) return;
  SetReason(UROCE_REASON_BAD_STATE, static_cast<uint8_t>(qp.core().state()));
  RecordWithHistory(qp, frame);
}

void FrameRecorder::RecordWithHistory(QueuePair& qp, const rte_mbuf* frame) {
  if (qp.history() != nullptr) AddToHistory(qp, UROCE_CAPTURE_INBOUND, frame, annotation_);
  Record(qp.port(), frame);
}

uroce_capture_note FrameRecorder::AnnotateSent(QueuePair& qp, const transport::TxPacket& packet,
                                               const rte_mbuf* frame) {
  uroce_capture_note annotation{.qpn = qp.qpn().value(), .psn = packet.header.psn.value()};
  const bool is_plain = packet.header.opcode != wire::Opcode::kAcknowledge;
  if (packet.retransmission || !is_plain) AddReason(packet, annotation);
  if (qp.history() != nullptr) AddToHistory(qp, UROCE_CAPTURE_OUTBOUND, frame, annotation);
  return annotation;
}

void FrameRecorder::AddToHistory(QueuePair& qp, uint16_t direction, const rte_mbuf* frame,
                                 const uroce_capture_note& annotation) {
  references_.Fill(*frame);
  pending_.Fill(*frame);
  qp.history()->Add(direction, BytesOf(*frame), taps_.clock.Wall(), annotation);
}

}  // namespace uroce::datapath
