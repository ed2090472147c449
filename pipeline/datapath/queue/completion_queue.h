// SPDX-License-Identifier: Apache-2.0
// One worker's ring of a completion queue, the completion queue with its rings of all workers, and
// how workers notify programs of what is in them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/completion_queue.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/work.h"

namespace uroce::datapath {

// How workers notify programs: records on sockets, wakes of sleeping pollers, and a limit of the
// time that they take.

/// Limits how much of a worker's time it takes to wake the programs of one user.
///
/// A record wakes all that wait on its socket, and a program decides how many do: an epoll set with
/// 10,000 duplicates of the fd makes each record take a millisecond of the worker that sends it.
/// After a wake-up that took longer than kCheap, the user's next ones wait kRest times as long.
///
/// Wall-clock time also counts what other threads of the machine took. So a wake-up that looks
/// expensive only raises suspicion: the next ones are measured by the thread's own clock, which
/// takes a system call, until one is cheap. Any worker.
class WakePace {
 public:
  static constexpr Nanos kCheap{50'000};
  static constexpr int kRest = 32;

  /// Runs `wake`, which makes the system call that wakes threads, and accounts for its time.
  /// Returns what `wake` returned; false also when it must wait and was not run.
  template <typename Wake>
  bool Run(Wake&& wake) {
    const Nanos begin = WallTime();
    if (!MayWake(begin)) return false;
    const bool is_suspected = is_suspected_.load(std::memory_order_relaxed);
    const Nanos own_begin = is_suspected ? OwnTime() : begin;
    const bool is_done = wake();
    const Nanos end = WallTime();
    Account(end, is_suspected ? OwnTime() - own_begin : end - begin, is_suspected);
    return is_done;
  }

  bool MayWake(Nanos now) const {
    return now.count() >= rest_until_.load(std::memory_order_relaxed);
  }
  bool is_suspected() const { return is_suspected_.load(std::memory_order_relaxed); }
  /// Called when a wake-up took `cost`: CPU time of the worker if is_suspected was set before.
  void Account(Nanos now, Nanos cost, bool is_own_time) {
    if (cost > kCheap && is_own_time) {
      rest_until_.store((now + cost * kRest).count(), std::memory_order_relaxed);
    } else if (is_own_time || cost > kCheap) {
      is_suspected_.store(cost > kCheap, std::memory_order_relaxed);
    }
  }

 private:
  static Nanos WallTime();
  static Nanos OwnTime();

  std::atomic<int64_t> rest_until_{0};
  std::atomic<bool> is_suspected_{false};
};

// Records on the sockets that a program polls: completion channels and asynchronous events.

/// The first wait after a full socket: see RecordRetries.
inline constexpr Nanos kRecordRetry{1'000'000};

/// Events of ibv_event_type that workers raise.
inline constexpr uint32_t kEventCqError = 0;
inline constexpr uint32_t kEventQpFatal = 1;
inline constexpr uint32_t kEventSrqLimitReached = 15;

/// The daemon's end of a stream socket. Any thread. Owned by nic.
struct RecordSocket {
  int fd = -1;               ///< -1: the program has not opened one.
  WakePace* pace = nullptr;  ///< The pace of its user; null: no limit.

  bool is_open() const { return fd >= 0; }
  /// Sends one record, whole or not at all. This is a wake-up, the one system call that the path of
  /// a packet allows. It waits for nothing that a reader holds. `event_type`: of ibv_event_type, or
  /// UROCE_EVENT_COMPLETION.
  /// False: the socket is full, or its user's records have taken too long; try again later. A
  /// closed socket takes everything.
  [[nodiscard]] bool Write(uint64_t element, uint32_t event_type) const;
};

/// Where those threads of a program sleep that poll one CQ, until it has a CQE. Any worker. Owned
/// by nic.
struct Pollers {
  uroce_line32* word = nullptr;  ///< In the arena; null: no thread sleeps on it.
  uint32_t bit = 0;              ///< Of the CQ: rings::PollerBit.
  WakePace* pace = nullptr;      ///< The pace of its user; null: no limit.

  /// Whether Wake is due for the CQEs that are published. The caller has made a full fence since.
  bool any() const { return word != nullptr && rings::HasPollers(*word, bit); }
  /// Wakes them: a system call, if they have not been woken since any() returned true. When the
  /// user's wake-ups have taken too long, Wake does nothing: the sleeping threads have timeouts.
  void Wake() const;
};

/// Events of one queue pair, or of the port of one context, for one program. They are sent to the
/// socket of the program's context, or kept while the socket is full or the user's wake-ups rest
/// (WakePace). Those of a queue pair are used by the worker; nic looks inside only while it stands
/// still (Worker::Run).
class EventRecords {
 public:
  /// `element` names the queue pair, or the port, in the records.
  EventRecords(const RecordSocket& async, uint64_t element) : async_(async), element_(element) {}

  /// Sends or keeps an event. While kMaxPending events are kept, further ones are lost.
  void Raise(uint32_t event_type);
  bool has_pending() const { return pending_count_ != 0; }
  void Retry();
  /// The number of records sent.
  uint32_t written() const { return written_; }

 private:
  static constexpr uint32_t kMaxPending = 8;

  RecordSocket async_;
  uint64_t element_;
  uint32_t pending_count_ = 0;
  uint32_t written_ = 0;
  std::array<uint32_t, kMaxPending> pending_{};
};

/// Reports the state of one queue pair to its program, on its page, and asynchronous events. Used
/// by its worker; nic looks inside only while the worker stands still (Worker::Run).
class QueuePairReports {
 public:
  /// `element` names the queue pair in the records on `async`, its program's socket.
  QueuePairReports(uroce_qp_page& page, const RecordSocket& async, uint64_t element)
      : page_(page), receivers_(std::make_unique<Receivers>(EventRecords(async, element))) {}

  /// Writes the transport's state to the page, then a full fence: a program that reads the page
  /// either sees ERR, or posted before the rings are looked at again. True: it changed.
  bool PublishState(transport::QpState state);
  /// Reports an asynchronous event, at once or by RetryRecords.
  void RaiseEvent(uint32_t event_type);
  bool has_pending_records() const { return has_pending_records_; }
  void RetryRecords();
  /// Adds or removes a further receiver of events: each program that has opened an XRC target.
  void AddListener(EventRecords* listener) { receivers_->others.push_back(listener); }
  void RemoveListener(EventRecords* listener) { std::erase(receivers_->others, listener); }
  /// The number of records written to the socket of the own program.
  uint32_t async_records() const { return receivers_->own.written(); }

 private:
  /// Elsewhere in memory, since events are rare.
  struct Receivers {
    explicit Receivers(const EventRecords& its_own) : own(its_own) {}

    EventRecords own;
    std::vector<EventRecords*> others;
  };
  /// Calls `send(EventRecords&)` for each receiver, and notes whether any has pending records.
  template <typename Send>
  void ForEachReceiver(Send&& send);

  uroce_qp_page& page_;
  std::unique_ptr<Receivers> receivers_;
  transport::QpState published_state_ = transport::QpState::kReset;
  bool has_pending_records_ = false;
};

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
  /// How many CQEs were written, and how many of them the program has polled, as it says.
  uint64_t published() const { return published_; }
  uint64_t polled() const { return published_ - ring_.waiting(); }
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
  uint64_t published_ = 0;
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
