// SPDX-License-Identifier: Apache-2.0
// A ring of frames from one thread to another: bounded, one producer, one consumer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

struct rte_mbuf;

namespace uroce::drivers {

/// Owns the frames in it. Neither end blocks. Each end reads the other's index only when its own
/// copy of that index says that there is nothing to do.
class FrameQueue {
 public:
  /// Holds exactly `depth_frames`, 1 to kMaxDepthFrames. Frames come from pools that outlive the
  /// queue.
  explicit FrameQueue(uint32_t depth_frames);
  ~FrameQueue();
  FrameQueue(const FrameQueue&) = delete;
  FrameQueue& operator=(const FrameQueue&) = delete;

  static constexpr uint32_t kMaxDepthFrames = 32768;

  // ---- producer ----
  /// Takes the first n frames and returns n: as many as fit.
  [[nodiscard]] uint16_t Put(rte_mbuf* const* frames, uint16_t count);
  /// How many frames fit. The number is exact when it is below `enough`.
  uint32_t Room(uint32_t enough);

  // ---- consumer ----
  /// Yields up to `count` frames, the oldest first; the caller owns them.
  uint16_t Take(rte_mbuf** frames, uint16_t count);
  bool empty() const { return produced_.load(std::memory_order_acquire) == taken_; }

 private:
  const uint32_t depth_;
  const uint32_t mask_;
  const std::unique_ptr<rte_mbuf*[]> slots_;
  alignas(64) std::atomic<uint32_t> produced_{0};
  uint32_t put_ = 0;  // The producer's own index.
  uint32_t seen_consumed_ = 0;
  alignas(64) std::atomic<uint32_t> consumed_{0};
  uint32_t taken_ = 0;  // The consumer's own index.
  uint32_t seen_produced_ = 0;
};

}  // namespace uroce::drivers
