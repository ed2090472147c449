// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/frame_queue.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>

namespace uroce::drivers {

FrameQueue::FrameQueue(uint32_t depth_frames)
    : depth_(depth_frames),
      mask_(std::bit_ceil(depth_frames) - 1),
      slots_(std::make_unique<rte_mbuf*[]>(mask_ + 1)) {}

FrameQueue::~FrameQueue() {
  rte_mbuf* frame = nullptr;
  while (Take(&frame, 1) != 0) rte_pktmbuf_free(frame);
}

uint32_t FrameQueue::Room(uint32_t enough) {
  if (depth_ - (put_ - seen_consumed_) < enough) {
    seen_consumed_ = consumed_.load(std::memory_order_acquire);
  }
  return depth_ - (put_ - seen_consumed_);
}

uint16_t FrameQueue::Put(rte_mbuf* const* frames, uint16_t count) {
  const auto fitting = static_cast<uint16_t>(std::min<uint32_t>(count, Room(count)));
  if (fitting == 0) return 0;
  for (uint32_t i = 0; i < fitting; ++i) slots_[(put_ + i) & mask_] = frames[i];
  put_ += fitting;
  produced_.store(put_, std::memory_order_release);
  return fitting;
}

uint16_t FrameQueue::Take(rte_mbuf** frames, uint16_t count) {
  if (seen_produced_ - taken_ < count) seen_produced_ = produced_.load(std::memory_order_acquire);
  const auto there = static_cast<uint16_t>(std::min<uint32_t>(count, seen_produced_ - taken_));
  if (there == 0) return 0;
  for (uint32_t i = 0; i < there; ++i) frames[i] = slots_[(taken_ + i) & mask_];
  taken_ += there;
  consumed_.store(taken_, std::memory_order_release);
  return there;
}

}  // namespace uroce::drivers
