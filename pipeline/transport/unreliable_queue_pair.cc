// SPDX-License-Identifier: Apache-2.0
// Queue pairs of unreliable connections (UC) and unreliable datagrams (UD): a work is complete when
// its last packet has left, and a work that fails stops only the send queue
// (docs/protocol/transport.md, sections 6.1, 9 and 10).
#include "pipeline/transport/unreliable_queue_pair.h"

#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"

namespace uroce::transport {
namespace {

using Kind = RequestShape::Kind;

/// A work whose Q_Key has this bit set uses the queue pair's own Q_Key.
constexpr uint32_t kOwnQkey = 1u << 31;

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

// ---- the send queue ----

void UnreliableSends::Flush() {
  stopped_ = true;
  leaving_ = executing_local_ = false;
  packets_sent_ = 0;
  to_flush_ = tail_ - next_;
}

void UnreliableSends::Reset() {
  reported_ = next_ = tail_ = to_flush_ = packets_sent_ = 0;
  psn_ = wire::Psn();
  leaving_ = executing_local_ = holding_ = stopped_ = failed_ = false;
  head_status_ = WcStatus::kWrFlushErr;
}

PostResult UnreliableSends::Post(const SendWork& work, WcStatus verdict) {
  if (room() == 0) return PostResult::kQueueFull;
  ring_.At(tail_++) = {.work = work, .verdict = verdict};
  to_flush_ += stopped_;
  return PostResult::kPosted;
}

bool UnreliableSends::Holds(uint32_t slot) const {
  return tail_ != reported_ && slot - ring_.At(reported_).work.slot < tail_ - reported_;
}

UnreliableSends::Turn UnreliableSends::TurnOf() const {
  // Later works wait until the completions of all flushed works are polled.
  if (next_ == tail_ || stopped_ || to_flush_ != 0) return Turn::kNone;
  if (leaving_ || executing_local_) return Turn::kNone;
  if (packets_sent_ != 0) return Turn::kPacket;
  if (holding_) return Turn::kNone;
  const Held& held = ring_.At(next_);
  if (held.verdict != WcStatus::kSuccess) return Turn::kUnfit;
  return IsLocal(held.work.opcode) ? Turn::kLocal : Turn::kPacket;
}

const SendWork* UnreliableSends::Next() {
  const Turn turn = TurnOf();
  if (turn == Turn::kUnfit) Fail(ring_.At(next_).verdict);
  return turn == Turn::kPacket ? &ring_.At(next_).work : nullptr;
}

void UnreliableSends::OnSent(bool last) {
  if (!leaving_) return;  // The queue was flushed meanwhile.
  leaving_ = false;
  psn_ = psn_ + 1;
  ++packets_sent_;
  if (!last) return;
  packets_sent_ = 0;
  ++next_;
}

void UnreliableSends::Fail(WcStatus status) {
  head_status_ = status;
  failed_ = true;
}

bool UnreliableSends::PollLocal(LocalEffect& effect) {
  if (TurnOf() != Turn::kLocal) return false;
  const SendWork& work = ring_.At(next_).work;
  const bool binds = work.opcode == WorkOpcode::kBindWindow;
  effect.kind = binds ? LocalEffect::Kind::kBind : LocalEffect::Kind::kInvalidate;
  effect.slot = work.slot;
  effect.rkey = work.invalidate_rkey;
  executing_local_ = true;
  return true;
}

void UnreliableSends::OnLocalDone(EffectOutcome outcome) {
  if (!executing_local_) return;
  executing_local_ = false;
  if (outcome == EffectOutcome::kDone) {
    ++next_;
    return;
  }
  const bool binds = ring_.At(next_).work.opcode == WorkOpcode::kBindWindow;
  Fail(binds ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr);
}

bool UnreliableSends::PollCompletion(Completion& completion) {
  while (reported_ != next_ || to_flush_ != 0) {
    const bool success = reported_ != next_;
    const SendWork& work = ring_.At(reported_++).work;
    if (success && !signal_all_ && !work.signaled) continue;
    completion = {.wr_id = work.wr_id,
                  .slot = work.slot,
                  .opcode = CompletionOpcode(work.opcode),
                  .length_bytes = work.length_bytes};
    if (!success) {
      next_ = reported_;
      --to_flush_;
      completion.status = head_status_;
      head_status_ = WcStatus::kWrFlushErr;
      const bool flushed = completion.status == WcStatus::kWrFlushErr;
      ++(flushed ? counters_.req_cqe_flush_error : counters_.req_cqe_error);
    }
    return true;
  }
  return false;
}

// ---- what UC and UD share ----

void UnreliableQueuePair::Modify(QpState state, const QueuePairAttributes& attributes) {
  const QpState old = state_;
  attributes_ = attributes;
  mtu_ = PathMtu(attributes.path_mtu_bytes);
  if (state == QpState::kReset) return Reset();
  if (state == QpState::kErr) return EnterError();
  if (state == QpState::kRtr && old != QpState::kRtr) epsn_ = attributes.rq_psn;
  if (state == QpState::kRts && old == QpState::kRtr) sends_.Start(attributes.sq_psn);
  if (state == QpState::kRts && old == QpState::kSqe) sends_.Resume();
  state_ = state;
  sends_.SetHold(state == QpState::kSqd);
  if (state != QpState::kSqd) drain_announced_ = false;
  Settle();
}

void UnreliableQueuePair::Reset() {
  state_ = QpState::kReset;
  sends_.Reset();
  message_.Clear();
  completions_.Clear();
  events_.Clear();
  epsn_ = wire::Psn();
  established_ = drain_announced_ = last_wqe_due_ = false;
}

void UnreliableQueuePair::EnterError() {
  if (state_ != QpState::kErr) last_wqe_due_ = config_.shared_receive;
  state_ = QpState::kErr;
  sends_.Flush();
  message_.Abandon();
  if (message_.has_receive()) FailReceive(WcStatus::kWrFlushErr);
}

void UnreliableQueuePair::Settle() {
  if (sends_.failed() && sending()) {
    state_ = QpState::kSqe;
    sends_.Flush();
  }
  if (state_ == QpState::kSqd && !drain_announced_ && !sends_.busy()) {
    drain_announced_ = true;
    if (attributes_.notify_drained) events_.Raise(QpEvent::kSqDrained);
  }
}

bool UnreliableQueuePair::PollLocal(LocalEffect& effect) {
  return sending() && sends_.PollLocal(effect);
}

void UnreliableQueuePair::OnLocalDone(EffectOutcome outcome) {
  sends_.OnLocalDone(outcome);
  Settle();
}

void UnreliableQueuePair::OnGatherFailed() {
  if (sending()) sends_.Fail(WcStatus::kLocProtErr);
  Settle();
}

void UnreliableQueuePair::OnAddressRefused() {
  if (sending()) sends_.Fail(WcStatus::kLocQpOpErr);
  Settle();
}

void UnreliableQueuePair::PostReceive(const ReceiveWork& work) {
  message_.PostReceive(work);
  if (state_ == QpState::kErr) FailReceive(WcStatus::kWrFlushErr);
}

void UnreliableQueuePair::FailReceive(WcStatus status) {
  const bool flushed = status == WcStatus::kWrFlushErr;
  ++(flushed ? counters_.resp_cqe_flush_error : counters_.resp_cqe_error);
  completions_.Push(message_.End(status, WcOpcode::kReceive, 0));
}

void UnreliableQueuePair::NoteArrival() {
  if (state_ != QpState::kRtr || established_) return;
  established_ = true;
  events_.Raise(QpEvent::kCommEst);
}

bool UnreliableQueuePair::PollEvent(QpEvent& event) {
  // The event comes after the last receive completion, not before (docs/protocol/transport.md,
  // section 6.1).
  if (last_wqe_due_ && receive_room() == kMaxReceiveCompletions) {
    last_wqe_due_ = false;
    events_.Raise(QpEvent::kLastWqeReached);
  }
  return events_.Poll(event);
}

// ---- UC ----

PostResult UcQueuePair::Post(const SendWork& work) { return sends_.Post(work, VerdictOn(work)); }

bool UcQueuePair::PollPacket(TxPacket& packet) {
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

ReceiveResult UcQueuePair::OnPacket(const wire::Packet& packet, Effect& effect) {
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

void UcQueuePair::OnEffectDone(EffectOutcome outcome) {
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

// ---- UD ----

PostResult UdQueuePair::Post(const SendWork& work) {
  const bool known = work.opcode == WorkOpcode::kSend || work.opcode == WorkOpcode::kSendWithImm;
  WcStatus verdict = WcStatus::kSuccess;
  if (work.length_bytes > mtu_.bytes()) verdict = WcStatus::kLocLenErr;
  if (work.malformed || !known) verdict = WcStatus::kLocQpOpErr;
  return sends_.Post(work, verdict);
}

bool UdQueuePair::PollPacket(TxPacket& packet) {
  if (!sending()) return false;
  const SendWork* const work = sends_.Next();
  if (work == nullptr) {
    Settle();
    return false;
  }
  const bool immediate = work->opcode == WorkOpcode::kSendWithImm;
  const bool own_qkey = (work->remote_qkey & kOwnQkey) != 0;
  wire::TransportHeader& header = packet.header;
  header.opcode = immediate ? wire::Opcode::kUdSendOnlyWithImm : wire::Opcode::kUdSendOnly;
  header.solicited = work->solicited;
  header.ack_request = false;
  header.psn = sends_.psn();
  header.dest_qpn = work->remote_qpn;
  header.immediate = work->immediate;
  header.deth = {.qkey = own_qkey ? attributes_.qkey : work->remote_qkey,
                 .source_qpn = config_.qpn};
  const bool empty = work->length_bytes == 0;
  packet.payload_source = empty ? TxPacket::Source::kNone : TxPacket::Source::kSend;
  packet.local = {.slot = work->slot, .offset_bytes = 0, .length_bytes = work->length_bytes};
  packet.path = work->path;
  packet.retransmission = false;
  sends_.OnPacket();
  return true;
}

void UdQueuePair::OnSent(const TxPacket&) {
  sends_.OnSent(true);
  Settle();
}

bool UdQueuePair::NeedsReceive(const wire::TransportHeader& header) const {
  return receiving() && !message_.has_receive() && header.deth.qkey == attributes_.qkey;
}

ReceiveResult UdQueuePair::OnPacket(const wire::Packet& packet, Effect& effect) {
  effect.kind = Effect::Kind::kNone;
  const wire::TransportHeader& header = packet.header;
  if (!receiving()) return ReceiveResult::kBadState;
  if (wire::ServiceOf(header.opcode) != wire::Service::kUd) return ReceiveResult::kMalformed;
  if (header.deth.qkey != attributes_.qkey) {
    ++counters_.qkey_viol;
    return ReceiveResult::kBadQkey;
  }
  NoteArrival();
  if (!receive_ready()) {
    ++counters_.out_of_buffer;
    return ReceiveResult::kNoReceive;
  }
  if (message_.receive().malformed) {
    FailReceive(WcStatus::kLocQpOpErr);
    EnterError();
    return ReceiveResult::kFailed;
  }
  const auto size = static_cast<uint32_t>(packet.payload.size());
  if (message_.receive().length_bytes < kGrhAreaBytes + size) return OnTooLong();
  arriving_ = {.solicited = header.solicited,
               .has_immediate = header.opcode == wire::Opcode::kUdSendOnlyWithImm,
               .length_bytes = kGrhAreaBytes + size,
               .immediate_or_rkey = header.immediate,
               .source_qpn = header.deth.source_qpn,
               .has_grh = true,
               .is_ipv6 = !packet.destination.is_ipv4()};
  effect.kind = Effect::Kind::kPlaceReceive;
  effect.grh_area = true;
  effect.invalidate = false;
  effect.local = {
      .slot = message_.receive().slot, .offset_bytes = kGrhAreaBytes, .length_bytes = size};
  return ReceiveResult::kAccepted;
}

ReceiveResult UdQueuePair::OnTooLong() {
  ++counters_.resp_local_length_error;
  ++counters_.dropped_messages;
  // A receive work of the queue pair's own queue waits for the next datagram. One from a shared
  // queue completes with an error (docs/protocol/transport.md, section 10).
  if (config_.shared_receive) FailReceive(WcStatus::kLocLenErr);
  return ReceiveResult::kTooLong;
}

void UdQueuePair::OnEffectDone(EffectOutcome outcome) {
  if (outcome != EffectOutcome::kDone) {
    FailReceive(WcStatus::kLocProtErr);
    return EnterError();
  }
  Completion completion = arriving_;
  const Completion ended = message_.End(WcStatus::kSuccess, WcOpcode::kReceive, 0);
  completion.wr_id = ended.wr_id;
  completion.slot = ended.slot;
  completion.queue = ended.queue;
  completion.is_receive = true;
  completion.opcode = WcOpcode::kReceive;
  completions_.Push(completion);
}

}  // namespace uroce::transport
