// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/uc_queue_pair.h"

#include "pipeline/transport/message_packet.h"
#include "pipeline/transport/request_shape.h"

namespace uroce::transport {
namespace {

using Kind = RequestShape::Kind;

/// The status with which a work fails that can never be sent; kSuccess when it can be sent.
WcStatus VerdictOn(const SendWork& work) {
  const bool known = work.opcode <= WorkOpcode::kSendWithImm ||
                     work.opcode == WorkOpcode::kLocalInvalidate ||
                     work.opcode == WorkOpcode::kBindWindow;
  if (work.malformed || !known) return WcStatus::kLocQpOpErr;
  return work.length_bytes > kMaxMessageBytes ? WcStatus::kLocLenErr : WcStatus::kSuccess;
}

bool IsLast(wire::Opcode opcode) { return wire::InfoOf(opcode).Has(wire::OpcodeInfo::kLast); }

}  // namespace

PostResult UcQueuePair::Post(const SendWork& work) { return sends_.Post(work, VerdictOn(work)); }

bool UcQueuePair::PollPacket(Nanos, TxPacket& packet) {
  if (!sending()) return false;
  const SendWork* const work = sends_.Next();
  if (work == nullptr) {
    Settle();
    return false;
  }
  FillMessagePacket(*work, mtu_, sends_.packets_sent(), packet);
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::OpcodeOf(wire::Service::kUc, header.opcode);
  header.psn = sends_.psn();
  header.ack_request = false;
  header.immediate = work->immediate;
  packet.retransmission = false;
  sends_.OnPacket();
  return true;
}

void UcQueuePair::OnSent(const TxPacket& packet) {
  sends_.OnSent(IsLast(packet.header.opcode));
  Settle();
}

bool UcQueuePair::NeedsReceive(const wire::TransportHeader& header) const {
  if (!receiving() || message_.has_receive()) return false;
  const RequestShape shape = ShapeOf(header.opcode);
  const bool follows = shape.first || (header.psn == epsn_ && message_.Continues(shape));
  return shape.takes_receive() && follows;
}

bool UcQueuePair::Follows(const wire::TransportHeader& header, const RequestShape& shape) {
  const bool gap = header.psn != epsn_;
  if (gap) ++counters_.out_of_sequence;
  if (shape.first) message_.Abandon();
  if (!shape.first && (gap || !message_.Continues(shape))) return false;
  epsn_ = header.psn + 1;
  return true;
}

ReceiveResult UcQueuePair::OnPacket(const wire::Packet& packet, Nanos, Effect& effect) {
  effect.kind = Effect::Kind::kNone;
  const wire::TransportHeader& header = packet.header;
  if (!receiving()) return ReceiveResult::kBadState;
  const RequestShape shape = ShapeOf(header.opcode);
  const bool message = shape.kind == Kind::kSend || shape.kind == Kind::kWrite;
  if (wire::ServiceOf(header.opcode) != wire::Service::kUc || !message || shape.invalidate) {
    return ReceiveResult::kMalformed;
  }
  NoteArrival();
  if (!Follows(header, shape)) return Drop(ReceiveResult::kOutOfSequence);
  if (shape.takes_receive() && !receive_ready()) {
    ++counters_.out_of_buffer;
    return Drop(ReceiveResult::kNoReceive);
  }
  if (shape.kind == Kind::kWrite && !attributes_.remote_write) return Drop(ReceiveResult::kRefused);
  counters_.rx_write_requests += shape.kind == Kind::kWrite && shape.first;
  message_.Take(packet, shape);
  if (shape.takes_receive() && message_.receive().malformed) {
    FailReceive(WcStatus::kLocQpOpErr);
    EnterError();
    return ReceiveResult::kFailed;
  }
  const Refusal refusal = message_.Check(mtu_);
  if (refusal == Refusal::kReceiveLength) {
    ++counters_.resp_local_length_error;
    return Drop(ReceiveResult::kTooLong);
  }
  if (refusal != Refusal::kNone) return Drop(ReceiveResult::kRefused);
  message_.Place(effect);
  if (effect.kind == Effect::Kind::kNone) Commit();
  return ReceiveResult::kAccepted;
}

ReceiveResult UcQueuePair::Drop(ReceiveResult why) {
  const bool counted = why == ReceiveResult::kNoReceive || why == ReceiveResult::kOutOfSequence;
  counters_.dropped_messages += !counted;
  message_.Abandon();
  return why;
}

void UcQueuePair::OnEffectDone(EffectOutcome outcome, uint64_t, Nanos) {
  switch (outcome) {
    case EffectOutcome::kDone:
      return Commit();
    case EffectOutcome::kRemoteAccess:
    case EffectOutcome::kNotKept:
      ++counters_.resp_remote_access_errors;
      Drop(ReceiveResult::kRefused);
      return;
    case EffectOutcome::kLocalProtection:
    case EffectOutcome::kInvalidateFailed:
      FailReceive(WcStatus::kLocProtErr);
      return EnterError();
  }
}

void UcQueuePair::Commit() {
  message_.Commit();
  if (message_.completes()) completions_.Push(message_.Complete());
}

}  // namespace uroce::transport
