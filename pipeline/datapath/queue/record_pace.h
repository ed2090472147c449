// SPDX-License-Identifier: Apache-2.0
// Limits how much of a worker's time the records of one user's programs take.
#pragma once

#include <atomic>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::datapath {

/// A record wakes all that wait on its socket, and a program decides how many do: an epoll set with
/// 10,000 duplicates of the fd makes each record take a millisecond of the worker that sends it.
/// After a record that took longer than kCheap, the user's next ones wait kRest times as long.
///
/// Wall-clock time also counts what other threads of the machine took. So a record that looks
/// expensive only raises suspicion: the next ones are measured by the thread's own clock, which
/// takes a system call, until one is cheap. Any worker.
class RecordPace {
 public:
  static constexpr Nanos kCheap{50'000};
  static constexpr int kRest = 32;

  bool MayWrite(Nanos now) const {
    return now.count() >= rest_until_.load(std::memory_order_relaxed);
  }
  bool is_suspected() const { return is_suspected_.load(std::memory_order_relaxed); }
  /// Called when a record took `cost`: CPU time of the worker if is_suspected was set before.
  void Account(Nanos now, Nanos cost, bool is_own_time) {
    if (cost > kCheap && is_own_time) {
      rest_until_.store((now + cost * kRest).count(), std::memory_order_relaxed);
    } else if (is_own_time || cost > kCheap) {
      is_suspected_.store(cost > kCheap, std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<int64_t> rest_until_{0};
  std::atomic<bool> is_suspected_{false};
};

}  // namespace uroce::datapath
