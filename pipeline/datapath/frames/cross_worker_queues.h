// SPDX-License-Identifier: Apache-2.0
// Frames from one worker to another: those that came in at a queue which is not their owner's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "drivers/frame_queue.h"
#include "pipeline/base/steering.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/receive_gates.h"

struct rte_mbuf;

namespace uroce::datapath {

/// The queues between the workers of a daemon: one from each to each other. A frame in a queue
/// refers to nothing but itself and its device, so it keeps nothing alive: its owner looks up anew
/// whom it is for.
class CrossWorkerQueues {
 public:
  static constexpr uint32_t kDepthFrames = 512;
  /// `wake(worker)` ends the sleep of a worker that sleeps.
  CrossWorkerQueues(uint32_t workers, std::function<void(uint32_t)> wake);
  uint32_t workers() const { return workers_; }
  drivers::FrameQueue& Queue(uint32_t from, uint32_t to) { return *queues_[from * workers_ + to]; }
  void Wake(uint32_t worker) { wake_(worker); }
  /// Of the queue pairs of all workers.
  ReceiveGates& gates() { return gates_; }

 private:
  const uint32_t workers_;
  const std::function<void(uint32_t)> wake_;
  std::vector<std::unique_ptr<drivers::FrameQueue>> queues_;
  ReceiveGates gates_;
};

/// One worker's ends of these queues. Used by that worker's thread.
class CrossWorkerLink {
 public:
  /// `queues` is null for a worker that is alone, whose number is 0 then.
  CrossWorkerLink(CrossWorkerQueues* queues, uint32_t index);

  uint32_t index() const { return index_; }
  uint32_t workers() const { return workers_; }
  uint32_t OwnerOf(Qpn qpn) const { return uroce::OwnerOf(qpn, workers_); }

  /// Gives a frame of the device at `position` (of the worker's list, which is the same in all) to
  /// another worker. False: its queue is full, and the frame stays the caller's.
  [[nodiscard]] bool Give(uint32_t to, uint16_t position, rte_mbuf* frame);
  /// `worker` is to look at what was put where it looks each turn, after the next WakeTakers.
  void WantWake(uint32_t worker) { to_wake_ |= SetOf(worker); }
  /// At the end of a burst.
  void WakeTakers() {
    if (to_wake_ != 0) WakeAll();
  }

  /// Null for a worker that is alone.
  ReceiveGates* gates() const { return queues_ == nullptr ? nullptr : &queues_->gates(); }

  /// Up to `count` frames that others gave; PositionOf says of which device each is.
  uint16_t Take(rte_mbuf** frames, uint16_t count);
  static uint16_t PositionOf(const rte_mbuf& frame);
  bool empty() const;

 private:
  void WakeAll();

  CrossWorkerQueues* const queues_;
  const uint32_t index_;
  const uint32_t workers_;
  uint32_t first_ = 0;  // The worker whose queue is looked into first.
  WorkerSet to_wake_ = 0;
};

}  // namespace uroce::datapath
