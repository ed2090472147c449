// SPDX-License-Identifier: Apache-2.0
// Passes copies of frames from one thread to another. Mbufs stay with their worker, so no other
// thread can empty or delay its pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace uroce::datapath {

enum class PutResult : uint8_t { kPut, kFull, kTooLong };

/// A ring with one producer thread and one consumer thread. Pages are touched when first used.
class FrameRing {
 public:
  /// `depth_frames` is a power of two.
  FrameRing(uint32_t depth_frames, uint32_t slot_bytes);

  // ---- producer ----
  [[nodiscard]] PutResult Put(std::span<const uint8_t> frame);
  /// Returns the next slot to fill, empty when all are taken. Commit says how long its frame is.
  std::span<uint8_t> Reserve();
  void Commit(uint32_t length_bytes);

  // ---- consumer ----
  /// The oldest frame, empty when there is none; it stays until Pop.
  std::span<const uint8_t> Front() const;
  void Pop();

  // ---- any thread ----
  bool empty() const {
    return produced_.load(std::memory_order_acquire) == consumed_.load(std::memory_order_acquire);
  }

 private:
  uint8_t* Slot(uint32_t index) const { return bytes_.get() + size_t{index & mask_} * slot_bytes_; }

  const uint32_t mask_;
  const uint32_t slot_bytes_;
  std::unique_ptr<uint8_t[]> bytes_;
  std::unique_ptr<uint32_t[]> lengths_;
  alignas(64) std::atomic<uint32_t> produced_{0};
  alignas(64) std::atomic<uint32_t> consumed_{0};
};

}  // namespace uroce::datapath
