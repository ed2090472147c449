// SPDX-License-Identifier: Apache-2.0
// Passes frames from one worker to another when they came in at a queue that is not their owner's.
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
  /// The receive gates of the queue pairs of all workers.
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
  /// `queues` is null when the daemon has one worker; `index` is 0 then.
  CrossWorkerLink(CrossWorkerQueues* queues, uint32_t index);

  uint32_t index() const { return index_; }
  uint32_t workers() const { return workers_; }
  uint32_t OwnerOf(Qpn qpn) const { return uroce::OwnerOf(qpn, workers_); }

  /// Gives a frame to another worker. `position` names its device, which may be removed before the
  /// worker takes the frame. False: the queue is full, and the caller keeps the frame.
  [[nodiscard]] bool Give(uint32_t to, uint16_t position, rte_mbuf* frame);
  /// Makes the next WakeTakers wake `worker`, which has something new where it looks each turn.
  void WantWake(uint32_t worker) { to_wake_ |= SetOf(worker); }
  /// Wakes the workers that have something new. Called at the end of a burst.
  void WakeTakers() {
    if (to_wake_ != 0) WakeAll();
  }

  /// Null when the daemon has one worker.
  ReceiveGates* gates() const { return queues_ == nullptr ? nullptr : &queues_->gates(); }

  /// Takes up to `count` frames of other workers. PositionOf tells which device a frame is of.
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
