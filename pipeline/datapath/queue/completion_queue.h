// SPDX-License-Identifier: Apache-2.0
// One worker's ring of a completion queue, and the completion queue with its rings of all workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/completion_queue.h"
#include "pipeline/transport/work.h"

namespace uroce::datapath {

class CompletionQueue;
class QueuePair;

/// What became of a completion.
enum class PublishResult : uint8_t {
  kOk,
  kOverflow,  ///< The ring is full: the queue is in error from now on.
  kInError    ///< The queue was in error before, by this worker or another.
};

/// The ring that the queue pairs of one worker complete on, and that worker's records on the
/// channel. Owned by its CompletionQueue. Used by its worker, so nic looks inside only while that
/// worker stands still (Worker::Run).
///
/// A full socket leaves its record pending: the worker calls RetryRecords until none is pending.
class CompletionRing {
 public:
  CompletionRing(CompletionQueue* queue, uint32_t worker, const rings::CqeRingLayout& layout)
      : queue_(*queue), worker_(worker), ring_(layout) {}
  CompletionRing(const CompletionRing&) = delete;
  CompletionRing& operator=(const CompletionRing&) = delete;

  uint32_t worker() const { return worker_; }
  CompletionQueue& queue() const { return queue_; }

  // ---- worker ----
  /// Writes one CQE for the queue pair (for XRC, the shared receive queue) that the program calls
  /// `handle`. kOverflow marks the queue and reports one IBV_EVENT_CQ_ERR for all its rings; the
  /// caller must see that the queue pairs of the CQ go to error.
  [[nodiscard]] PublishResult Publish(const transport::Completion& completion, uint32_t handle,
                                      Qpn qpn);
  /// Ends a burst of Publish calls: one fence, then the arm word, then a record if one is due.
  void FinishBurst();
  /// Whether Publish was called since FinishBurst.
  bool in_burst() const { return in_burst_; }
  bool has_pending_records() const { return pending_channel_ != 0 || pending_error_ || is_held_; }
  /// Whether the pending records wait for more CQEs.
  bool is_held() const { return is_held_; }
  /// Whether RecordRetries has this ring.
  bool is_retried() const { return is_retried_; }
  void set_retried(bool is_retried) { is_retried_ = is_retried; }
  /// Whether PollerWakes has this ring.
  bool is_waking() const { return is_waking_; }
  void set_waking(bool is_waking) { is_waking_ = is_waking; }
  /// Returns when to call RetryRecords next. Range: records are pending.
  Nanos RetryAfter() const;
  void RetryRecords();
  /// Adds or removes one of the worker's queue pairs that complete here. Each is listed once.
  void AddUser(QueuePair* qp) { users_.push_back(qp); }
  void ForgetUser(const QueuePair* qp);
  /// Makes NextToFail return each user of this moment. False: there is none.
  bool FailUsers() { return (left_to_fail_ = users_.size()) != 0; }
  /// Returns the next user that must go to error, or null.
  QueuePair* NextToFail() { return left_to_fail_ == 0 ? nullptr : users_[--left_to_fail_]; }

  // ---- while the worker stands still ----
  /// CQEs that the program has not polled. More than the depth: its index is impossible.
  uint32_t waiting() const { return ring_.waiting(); }
  const rings::CqeRingLayout& layout() const { return ring_.layout(); }
  /// Where the ring was before a move, and how far it was written.
  struct Moved {
    rings::CqeRingLayout from;
    uint32_t produced = 0;
    uint32_t waiting = 0;
  };
  /// Continues in a fresh ring, behind `waiting` CQEs that the caller puts there by
  /// rings::CopyWaiting.
  Moved MoveTo(const rings::CqeRingLayout& layout, uint32_t waiting);

  /// The number of records written: the program must have acknowledged as many at destruction.
  uint32_t channel_records() const { return channel_records_; }
  uint32_t async_records() const { return async_records_; }

 private:
  PublishResult Overflow();
  /// Whether the record of an armed queue waits for more CQEs, or for its time.
  bool MustHold();
  void Announce();
  void WriteRecords();

  CompletionQueue& queue_;
  uint32_t worker_;
  rings::CqeProducer ring_;
  std::vector<QueuePair*> users_;
  size_t left_to_fail_ = 0;  // How many of the oldest `users_` are still to fail.
  bool in_burst_ = false;
  bool solicited_in_burst_ = false;
  bool pending_error_ = false;
  bool is_retried_ = false;
  bool is_waking_ = false;
  bool is_held_ = false;        // A record waits for more CQEs.
  uint32_t held_cqes_ = 0;      // Published since the last look at the arm word that held nothing.
  uint64_t held_since_ns_ = 0;  // CLOCK_MONOTONIC
  uint32_t pending_channel_ = 0;
  uint32_t channel_records_ = 0;
  uint32_t async_records_ = 0;
};

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

/// The state that the workers share, and one ring for each of them. Owned by nic, which alone makes
/// and looks up rings. A worker gets its ring from its queue pairs.
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
