// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/unreliable_sends.h"

#include "pipeline/transport/request_opcode.h"

namespace uroce::transport {
namespace {}  // namespace

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

}  // namespace uroce::transport
