// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/responder_state.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "pipeline/wire/packet.h"

namespace uroce::transport {

void InboundMessage::PostReceive(const ReceiveWork& work) {
  assert(!has_receive_);
  receive_ = work;
  has_receive_ = true;
}

Completion InboundMessage::End(WcStatus status, WcOpcode opcode, uint32_t length_bytes) {
  has_receive_ = false;
  const bool success = status == WcStatus::kSuccess;
  Completion completion{.wr_id = receive_.wr_id,
                        .slot = receive_.slot,
                        .is_receive = true,
                        .solicited = solicited_ || !success,
                        .status = status,
                        .opcode = opcode,
                        .queue = receive_.queue,
                        .length_bytes = length_bytes};
  if (!success) return completion;
  completion.has_immediate = shape_.immediate;
  completion.has_invalidate = shape_.invalidate;
  completion.immediate_or_rkey = immediate_or_rkey_;
  return completion;
}

Completion InboundMessage::Complete() {
  const bool is_write = shape_.kind == RequestShape::Kind::kWrite;
  return End(WcStatus::kSuccess, is_write ? WcOpcode::kReceiveWriteWithImm : WcOpcode::kReceive,
             received_bytes_);
}

void InboundMessage::Clear() {
  Abandon();
  has_receive_ = false;
}

ResponderResources::ResponderResources(uint32_t capacity)
    : entries_(std::make_unique<ResponderResource[]>(std::bit_ceil(std::max(capacity, 1u)))),
      mask_(std::bit_ceil(std::max(capacity, 1u)) - 1) {}

void ResponderResources::SetLimit(uint32_t limit) { limit_ = std::min(limit, mask_ + 1); }

bool ResponderResources::HasRoom() const {
  if (limit_ == 0) return false;
  return tail_ - oldest_ < limit_ || entries_[oldest_ & mask_].answered;
}

void ResponderResources::Add(const ResponderResource& resource) {
  assert(HasRoom());
  while (tail_ - oldest_ >= limit_) {
    // A repeated reply to an old request, for which the requester no longer waits.
    if (At(oldest_).owed) {
      At(oldest_).owed = false;
      --owed_;
    }
    ++oldest_;
  }
  At(tail_) = resource;
  At(tail_).reply_psn = resource.first_psn;
  At(tail_).owed = At(tail_).opens = true;
  At(tail_).answered = false;
  ++tail_;
  ++owed_;
  SeekOwed();
}

ResponderResource* ResponderResources::Find(wire::Psn psn) {
  for (uint32_t index = tail_; index != oldest_; --index) {
    ResponderResource& entry = At(index - 1);
    if (Distance(entry.first_psn, psn) < entry.packets) return &entry;
  }
  return nullptr;
}

void ResponderResources::Replay(ResponderResource& resource, wire::Psn psn) {
  owed_ += !resource.owed;
  resource.owed = resource.opens = true;
  resource.reply_psn = psn;
  resource.repeats = 0;
  SeekOwed();
}

void ResponderResources::Repeat(ResponderResource& resource, wire::Psn psn, uint32_t packets) {
  if (!resource.owed) {
    ++owed_;
    resource.owed = true;
    resource.reply_psn = resource.end_psn();
  }
  const uint32_t sent = Distance(resource.first_psn, resource.reply_psn);
  uint32_t begin = Distance(resource.first_psn, psn);
  uint32_t end = std::min(begin + packets, sent);
  if (resource.repeats != 0 && begin < end) {
    const uint32_t first = Distance(resource.first_psn, resource.repeat_psn);
    begin = std::min(begin, first);
    end = std::max(end, first + resource.repeats);
  }
  if (begin < end) {
    resource.repeat_psn = resource.first_psn + begin;
    resource.repeats = end - begin;
  }
  SeekOwed();
}

void ResponderResources::AdvanceFront() {
  ResponderResource& front = Front();
  if (front.repeats != 0) {
    front.repeat_psn = front.repeat_psn + 1;
    --front.repeats;
  } else {
    front.opens = false;
    front.reply_psn = front.reply_psn + 1;
  }
  if (front.repeats == 0 && front.reply_psn == front.end_psn()) FinishFront();
}

void ResponderResources::FinishRepeats() {
  Front().repeats = 0;
  if (Front().reply_psn == Front().end_psn()) FinishFront();
}

void ResponderResources::FinishFront() {
  Front().owed = false;
  Front().repeats = 0;
  Front().answered = true;
  --owed_;
  if (owed_ != 0) SeekOwed();
}

void ResponderResources::DropReplies() {
  for (uint32_t index = oldest_; index != tail_; ++index) {
    At(index).owed = false;
    At(index).repeats = 0;
  }
  owed_ = 0;
}

void ResponderResources::SeekOwed() {
  cursor_ = oldest_;
  while (!At(cursor_).owed) ++cursor_;
}

}  // namespace uroce::transport
