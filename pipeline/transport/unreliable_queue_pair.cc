// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/unreliable_queue_pair.h"

namespace uroce::transport {

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

void UnreliableQueuePair::OnGatherFailed(const TxPacket&, Nanos) {
  if (sending()) sends_.Fail(WcStatus::kLocProtErr);
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

}  // namespace uroce::transport
