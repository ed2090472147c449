// SPDX-License-Identifier: Apache-2.0
// A completion queue: the state that its workers share, and one ring for each of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/datapath/queue/completion_ring.h"
#include "pipeline/datapath/queue/pollers.h"
#include "pipeline/datapath/queue/record_socket.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

/// The settings of a CQ, which nic fixes at creation. Addresses are the daemon's, in the arena.
struct CompletionQueueConfig {
  uroce_cq_page* page = nullptr;
  uint64_t user_handle = 0;  ///< Record written on the channel.
  RecordSocket channel;      ///< For completions, if the CQ has a channel.
  RecordSocket async;        ///< For asynchronous events of the context.
  Pollers pollers;           ///< Threads that sleep until a CQE comes.
  bool has_times = false;    ///< Completions say when they were made.
};

/// Moderation: an armed queue makes its record after `count` CQEs, or `period` after the first.
struct Moderation {
  uint16_t count = 0;
  uint16_t period_us = 0;
  /// Off: the record is made at once.
  bool is_on() const { return count > 1 && period_us != 0; }
};

/// Owned by nic, which alone makes and looks up rings. A worker gets its ring from its queue pairs.
class CompletionQueue {
 public:
  explicit CompletionQueue(const CompletionQueueConfig& config) : config_(config) {}
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // ---- control ----
  /// Returns the ring of `worker`, or null.
  CompletionRing* ring(uint32_t worker) const {
    return worker < rings_.size() ? rings_[worker].get() : nullptr;
  }
  /// Makes the ring of `worker`, which has none.
  CompletionRing& AddRing(uint32_t worker, const rings::CqeRingLayout& layout) {
    if (rings_.size() <= worker) rings_.resize(worker + 1);
    rings_[worker] = std::make_unique<CompletionRing>(this, worker, layout);
    return *rings_[worker];
  }
  /// Calls `visit(CompletionRing&)` for each ring, in rising order of workers.
  template <typename Visit>
  void ForEachRing(Visit&& visit) const {
    for (const auto& ring : rings_) {
      if (ring != nullptr) visit(*ring);
    }
  }

  /// Sets the moderation, which applies from the next CQE on.
  void set_moderation(Moderation moderation) {
    moderation_.store(moderation, std::memory_order_relaxed);
  }

  // ---- any worker that has a ring ----
  const CompletionQueueConfig& config() const { return config_; }
  Moderation moderation() const { return moderation_.load(std::memory_order_relaxed); }
  /// Whether one of the rings was full: nothing is published on any of them any more.
  bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }
  /// Marks the queue as overflowed. True: it was not marked before.
  bool MarkOverflowed() { return !overflowed_.exchange(true, std::memory_order_relaxed); }

 private:
  const CompletionQueueConfig config_;
  std::vector<std::unique_ptr<CompletionRing>> rings_;  // By worker; null where none is needed.
  std::atomic<Moderation> moderation_{};
  std::atomic<bool> overflowed_{false};
};

/// Learns of completion queues in error, on the thread of the worker that found one. Their queue
/// pairs on other workers must go to error too. Implementations must not block.
class OverflowSink {
 public:
  virtual ~OverflowSink() = default;
  virtual void OnOverflow(CompletionQueue& queue) = 0;
};

}  // namespace uroce::datapath
