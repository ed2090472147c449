// SPDX-License-Identifier: Apache-2.0
// How workers notify programs: records on sockets, wakes of sleeping pollers, and a limit of the
// time that they take.
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

namespace uroce::datapath {

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
  int fd = -1;               ///< -1: nobody listens.
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
  uroce_line32* word = nullptr;  ///< In the arena; null: nobody sleeps.
  uint32_t bit = 0;              ///< Of the CQ: rings::PollerBit.
  WakePace* pace = nullptr;      ///< The pace of its user; null: no limit.

  /// Whether Wake is due for the CQEs that are published. The caller has made a full fence since.
  bool any() const { return word != nullptr && rings::HasPollers(*word, bit); }
  /// Wakes them: a system call, if they have not been woken since any() returned true. When the
  /// user's wake-ups have taken too long, nobody is woken; who sleeps has a timeout.
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

/// What programs are told of one queue pair: its state, on its page, and asynchronous events. Used
/// by its worker; nic looks inside only while that stands still (Worker::Run).
class QueuePairReports {
 public:
  /// `element` names the queue pair in the records on `async`, the socket of its own program.
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

}  // namespace uroce::datapath
