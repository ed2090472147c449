// SPDX-License-Identifier: Apache-2.0
// Queues by which workers give frames to each other, and the gates that say which queue pairs take
// no more of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/port/frame_queue.h"

struct rte_mbuf;

namespace uroce::datapath {

/// One gate per queue pair number, open unless the owning worker has closed it. While a gate is
/// closed, a peer in the same daemon holds its packets back (those of a remote peer would be lost),
/// and the wire between them stays free for others. The worker that owns the queue pair closes and
/// opens the gate. Any worker reads it, and may see a change late.
class ReceiveGates {
 public:
  bool IsClosed(Qpn qpn) const {
    return (WordOf(qpn).load(std::memory_order_relaxed) & Bit(qpn)) != 0;
  }
  void Close(Qpn qpn) { WordOf(qpn).fetch_or(Bit(qpn), std::memory_order_relaxed); }
  void Open(Qpn qpn) { WordOf(qpn).fetch_and(~Bit(qpn), std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kNumbers = 1u << 24;
  static constexpr uint32_t kBits = 64;

  static uint64_t Bit(Qpn qpn) { return uint64_t{1} << qpn.value() % kBits; }
  std::atomic<uint64_t>& WordOf(Qpn qpn) const { return words_[qpn.value() % kNumbers / kBits]; }

  std::unique_ptr<std::atomic<uint64_t>[]> words_ =
      std::make_unique<std::atomic<uint64_t>[]>(kNumbers / kBits);
};

// Frames that came in at a queue which is not their owner's.

/// The queues between the workers of a daemon: one from each to each other. A frame in a queue
/// refers to nothing but itself and its device, so it keeps nothing alive: its owner looks up
/// again whom it is for.
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
