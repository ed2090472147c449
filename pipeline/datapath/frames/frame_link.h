// SPDX-License-Identifier: Apache-2.0
// A link between a worker and a thread that answers frames which no queue pair is for: the stack of
// a port of its own, or the general service interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "pipeline/datapath/frames/frame_ring.h"

namespace uroce::datapath {

/// Each counter is written by one thread with relaxed stores.
struct FrameLinkCounters {
  std::atomic<uint64_t> received{0};     ///< Frames handed to the stack. Worker.
  std::atomic<uint64_t> rx_discards{0};  ///< It was behind, or the frame too long. Worker.
  std::atomic<uint64_t> sent{0};         ///< Frames of the stack that went to the port. Worker.
  std::atomic<uint64_t> too_long{0};     ///< Lost: longer than an mbuf. Worker.
  std::atomic<uint64_t> tx_discards{0};  ///< The worker was behind. Stack.
  /// Malformed, as the stack found; of the general service interface as the worker did.
  std::atomic<uint64_t> rx_refused{0};
};

/// Two rings, one worker, and one thread of the stack. A stack that does not keep up, or that
/// sends too fast, loses frames, counted; it never holds the worker up.
class FrameLink {
 public:
  /// Frames of the stack that a worker sends per turn: half a burst, so that RoCE has its share.
  static constexpr uint32_t kFramesPerTurn = 16;

  FrameLink(uint32_t depth_frames, uint32_t slot_bytes);
  ~FrameLink();
  FrameLink(const FrameLink&) = delete;
  FrameLink& operator=(const FrameLink&) = delete;

  // ---- the one worker that serves it ----
  /// Copies a frame for the stack. False: it is behind, which is counted.
  bool Hand(std::span<const uint8_t> frame);
  /// At the end of a burst: wakes a stack that sleeps, if there was a frame for it.
  void Flush();
  FrameRing& outbound() { return outbound_; }
  const FrameRing& outbound() const { return outbound_; }

  // ---- stack ----
  /// Readable when frames have come since PrepareSleep, until ClearWake. A stack that has not
  /// called PrepareSleep since is not woken: it looks on its own.
  int wait_fd() const { return wait_fd_; }
  void ClearWake();
  FrameRing& inbound() { return inbound_; }
  /// Before waiting for `wait_fd`. False: frames are there.
  bool PrepareSleep();
  /// Queues a frame; false: dropped and counted. Then wake the worker (Worker::Wake).
  bool Send(std::span<const uint8_t> frame);

  // ---- any thread ----
  FrameLinkCounters& counters() { return counters_; }
  const FrameLinkCounters& counters() const { return counters_; }

 private:
  FrameRing inbound_;
  FrameRing outbound_;
  int wait_fd_;
  bool handed_ = false;  ///< In this burst. Worker.
  std::atomic<bool> asleep_{true};
  FrameLinkCounters counters_;
};

}  // namespace uroce::datapath
