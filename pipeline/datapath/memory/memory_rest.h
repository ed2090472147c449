// SPDX-License-Identifier: Apache-2.0
// How long workers leave the mapped memory of a user to copy helpers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::datapath {

/// A worker that touches a page of a program waits while a process frees or moves that page, which
/// takes the kernel the longer, the more mappings of the page there are: seconds are possible. A
/// rest begins when a worker has waited for memory of one of the user's programs. Until it is over,
/// copy helpers make all accesses to mapped memory of this user's programs. So a user takes
/// little of a worker's time. If a worker waits again soon after a rest, the next rest is ten times
/// as long for each moment of waiting, but no such rest is longer than ten minutes. Any thread.
class MemoryRest {
 public:
  /// A first rest is so many times as long as the wait, and any rest at most so many times.
  static constexpr int kTimesAsLong = 100;
  static constexpr int kMostTimes = 10'000;
  /// A wait soon after a rest multiplies that by it. Soon: within this many times that rest.
  static constexpr int kGrowth = 10;
  /// The longest rest, unless a hundred times the wait is longer.
  static constexpr Nanos kLongest{600'000'000'000};

  /// `is_endless`: it is on from the start, and never over.
  explicit MemoryRest(bool is_endless = false)
      : is_on_(is_endless), has_begun_(is_endless), end_(is_endless ? INT64_MAX : 0) {}

  /// Whether workers leave the memory to helpers.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /// Whether helpers may ever have had an access to mapped memory of this user.
  bool has_begun() const { return has_begun_.load(std::memory_order_acquire); }
  /// A worker has waited for `waited` until `now`.
  void Begin(Nanos now, Nanos waited) {
    // Workers that wait at the same time wait for one reason.
    if (!is_on()) times_.store(TimesFor(now), std::memory_order_relaxed);
    const Nanos grown = waited * times_.load(std::memory_order_relaxed);
    const Nanos length = std::min(grown, std::max(kLongest, waited * kTimesAsLong));
    const int64_t end = (now + length).count();
    if (end > end_.load(std::memory_order_relaxed)) {
      end_.store(end, std::memory_order_relaxed);
      soon_until_.store(end + length.count() * kGrowth, std::memory_order_relaxed);
    }
    has_begun_.store(true, std::memory_order_release);
    is_on_.store(true, std::memory_order_release);
  }
  /// Ends the rest if it is over. If another thread begins one at the same time, that one may end
  /// as well, until a worker waits again.
  void EndIfOver(Nanos now) {
    if (now.count() >= end_.load(std::memory_order_relaxed)) {
      is_on_.store(false, std::memory_order_relaxed);
    }
  }

 private:
  int TimesFor(Nanos now) const {
    if (now.count() >= soon_until_.load(std::memory_order_relaxed)) return kTimesAsLong;
    return std::min(times_.load(std::memory_order_relaxed) * kGrowth, kMostTimes);
  }

  std::atomic<bool> is_on_;
  std::atomic<bool> has_begun_;
  std::atomic<int64_t> end_;
  std::atomic<int> times_{kTimesAsLong};  ///< Of the rest that began last.
  std::atomic<int64_t> soon_until_{0};    ///< A wait until then comes soon after that rest.
};

}  // namespace uroce::datapath
