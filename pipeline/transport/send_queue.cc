// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/send_queue.h"

#include <algorithm>

namespace uroce::transport {

void SendWorks::Reset() {
  reported_ = done_ = next_ = begun_ = tail_ = 0;
  una_ = next_psn_ = high_psn_ = wire::Psn();
  reads_outstanding_ = response_psns_ = last_bytes_ = 0;
}

PostResult SendWorks::Post(const SendWork& work) {
  if (room() == 0) return PostResult::kQueueFull;
  HeldWork& held = ring_.At(tail_++);
  held.wr_id = work.wr_id;
  held.remote_va = work.remote_va;
  held.compare_add = work.compare_add;
  held.swap = work.swap;
  held.slot = work.slot;
  held.length_bytes = work.length_bytes;
  const bool invalidates =
      work.opcode == WorkOpcode::kSendWithInvalidate || work.opcode == WorkOpcode::kLocalInvalidate;
  held.immediate_or_rkey = invalidates ? work.invalidate_rkey.value() : work.immediate;
  held.rkey = work.rkey;
  held.opcode = work.opcode;
  held.traits = TraitsOf(work);
  held.signaled = work.signaled;
  held.solicited = work.solicited;
  held.xrc_srqn = work.xrc_srqn;
  return PostResult::kPosted;
}

bool SendWorks::Holds(uint32_t slot) const {
  // Slots are consecutive: they are the free-running indices of the shell's queue.
  return tail_ != reported_ && slot - ring_.At(reported_).slot < tail_ - reported_;
}

void SendWorks::EndLocal() {
  HeldWork& work = ring_.At(begun_);
  work.first_psn = high_psn_;
  work.packets = 0;
  next_ += next_ == begun_;
  done_ += done_ == begun_;
  ++begun_;
}

void SendWorks::GoBackTo(wire::Psn psn) {
  response_psns_ = last_bytes_ = 0;
  next_psn_ = una_;
  for (next_ = done_; next_psn_ != psn; ++next_) {
    const HeldWork& work = ring_.At(next_);
    const uint32_t left = work.packets - Distance(work.first_psn, next_psn_);
    const uint32_t packets = std::min(left, Distance(next_psn_, psn));
    if (work.is_read()) {
      response_psns_ += packets - 1;
      if (packets == left) last_bytes_ += BytesOfLast(work);
    }
    next_psn_ = next_psn_ + packets;
    if (packets < left) break;  // `psn` is within this message.
  }
  while (next_ != begun_ && ring_.At(next_).is_local()) ++next_;
}

uint32_t SendWorks::TakeBack(wire::Psn psn, bool first) {
  const uint32_t index = IndexOf(psn, done_);
  if (first) high_psn_ = psn;
  next_psn_ = psn;
  next_ = index;
  return index;
}

SendWorks::Progress SendWorks::AcknowledgeMore(wire::Psn end) {
  const wire::Psn before = una_;
  const uint32_t acknowledged = Distance(before, end);
  wire::Psn una = before;
  bool blocked = false;
  while (done_ != begun_) {
    const HeldWork& work = ring_.At(done_);
    const wire::Psn work_end = work.first_psn + work.packets;
    if (Distance(before, work_end) > acknowledged) {
      // Only its responses acknowledge a part of a READ.
      if (!work.is_read_or_atomic()) una = end;
      break;
    }
    blocked = work.is_read_or_atomic();
    if (blocked) break;
    una = work_end;
    Retire(work);
  }
  una_ = una;
  return {.packets = Distance(before, una), .blocked = blocked};
}

}  // namespace uroce::transport
