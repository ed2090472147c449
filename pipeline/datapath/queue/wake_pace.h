// SPDX-License-Identifier: Apache-2.0
// Limits how much of a worker's time it takes to wake the programs of one user.
#pragma once

#include <atomic>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::datapath {

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

}  // namespace uroce::datapath
