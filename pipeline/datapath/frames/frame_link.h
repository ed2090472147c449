// SPDX-License-Identifier: Apache-2.0
// A link between a worker and a thread that answers frames which are for no queue pair: the network
// stack of a port, or the general service interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "pipeline/datapath/frames/frame_ring.h"

namespace uroce::datapath {

/// Each counter is written with relaxed stores by one thread, which its comment names.
struct FrameLinkCounters {
  std::atomic<uint64_t> received{0};     ///< Frames handed to the stack. Worker.
  std::atomic<uint64_t> rx_discards{0};  ///< Dropped: stack behind, or frame too long. Worker.
  std::atomic<uint64_t> sent{0};         ///< Frames of the stack that went to the port. Worker.
  std::atomic<uint64_t> too_long{0};     ///< Dropped: longer than an mbuf. Worker.
  std::atomic<uint64_t> tx_discards{0};  ///< Dropped: the worker was behind. Stack.
  /// Refused frames: by the stack; on the link of the general service interface by the worker.
  std::atomic<uint64_t> rx_refused{0};
};

/// Two rings between one worker and one thread of the stack. A stack that does not keep up, or that
/// sends too fast, loses frames, which are counted. It never delays the worker.
class FrameLink {
 public:
  /// Frames of the stack that a worker sends per turn: half a burst, so that RoCE has its share.
  static constexpr uint32_t kFramesPerTurn = 16;

  FrameLink(uint32_t depth_frames, uint32_t slot_bytes);
  ~FrameLink();
  FrameLink(const FrameLink&) = delete;
  FrameLink& operator=(const FrameLink&) = delete;

  // ---- the one worker that serves it ----
  /// Copies a frame for the stack. False: the stack is behind; the loss is counted.
  bool Hand(std::span<const uint8_t> frame);
  /// Called at the end of a burst: wakes a sleeping stack if the burst had a frame for it.
  void Flush();
  FrameRing& outbound() { return outbound_; }
  const FrameRing& outbound() const { return outbound_; }

  // ---- stack ----
  /// Becomes readable when frames come after PrepareSleep, until ClearWake. A stack that has not
  /// called PrepareSleep since is not woken: it looks on its own.
  int wait_fd() const { return wait_fd_; }
  void ClearWake();
  FrameRing& inbound() { return inbound_; }
  /// Called before waiting for `wait_fd`. False: frames are there, so do not wait.
  bool PrepareSleep();
  /// Queues a frame. False: it was dropped and counted. Then wake the worker (Worker::Wake).
  bool Send(std::span<const uint8_t> frame);

  // ---- any thread ----
  FrameLinkCounters& counters() { return counters_; }
  const FrameLinkCounters& counters() const { return counters_; }

 private:
  FrameRing inbound_;
  FrameRing outbound_;
  int wait_fd_;
  bool handed_ = false;  ///< A frame was handed over in this burst. Worker.
  std::atomic<bool> asleep_{true};
  FrameLinkCounters counters_;
};

}  // namespace uroce::datapath
