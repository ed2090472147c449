// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/frames/frame_ring.h"

#include <cassert>
#include <cstring>

namespace uroce::datapath {

FrameRing::FrameRing(uint32_t depth_frames, uint32_t slot_bytes)
    : mask_(depth_frames - 1),
      slot_bytes_(slot_bytes),
      bytes_(std::make_unique_for_overwrite<uint8_t[]>(size_t{depth_frames} * slot_bytes)),
      lengths_(std::make_unique_for_overwrite<uint32_t[]>(depth_frames)) {
  assert((depth_frames & mask_) == 0);
}

PutResult FrameRing::Put(std::span<const uint8_t> frame) {
  if (frame.size() > slot_bytes_) return PutResult::kTooLong;
  const std::span<uint8_t> slot = Reserve();
  if (slot.empty()) return PutResult::kFull;
  std::memcpy(slot.data(), frame.data(), frame.size());
  Commit(static_cast<uint32_t>(frame.size()));
  return PutResult::kPut;
}

std::span<uint8_t> FrameRing::Reserve() {
  const uint32_t produced = produced_.load(std::memory_order_relaxed);
  if (produced - consumed_.load(std::memory_order_acquire) > mask_) return {};
  return {Slot(produced), slot_bytes_};
}

void FrameRing::Commit(uint32_t length_bytes) {
  const uint32_t produced = produced_.load(std::memory_order_relaxed);
  lengths_[produced & mask_] = length_bytes;
  produced_.store(produced + 1, std::memory_order_release);
}

std::span<const uint8_t> FrameRing::Front() const {
  const uint32_t consumed = consumed_.load(std::memory_order_relaxed);
  if (produced_.load(std::memory_order_acquire) == consumed) return {};
  return {Slot(consumed), lengths_[consumed & mask_]};
}

void FrameRing::Pop() {
  consumed_.store(consumed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace uroce::datapath
