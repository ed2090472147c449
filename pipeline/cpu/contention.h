// SPDX-License-Identifier: Apache-2.0
// Whether other threads want the core of this one, learned from how long its yields take. Pure.
#pragma once

#include <cstdint>

namespace uroce::cpu {

/// On a core of its own a thread that waits polls, and yields from time to time: it sees what it
/// waits for within some 100 ns. Where others want the core, a yield costs time slices: Linux since
/// 6.6 puts a thread that yields behind all that are ready. A thread that sleeps instead keeps its
/// share, and runs soon after its wake-up. So after a slow yield a thread is to sleep at once,
/// until yields are fast again. That is tried after 10 ms, and then ever more seldom, down to once
/// a second. Times are in ns of any clock. One thread.
class Contention {
 public:
  static constexpr int64_t kSlowYieldNs = 500'000;
  /// A yield in which nothing else ran takes less.
  static constexpr int64_t kFastYieldNs = 20'000;
  /// So many fast yields in a row end it. A thread that has slept much gets its core back from
  /// yields for a while (for 4 ms of its time at the most), though others are ready.
  static constexpr uint32_t kFastYields = 64;
  static constexpr int64_t kFirstTrialNs = 10'000'000;
  static constexpr int64_t kLongestTrialNs = 1'000'000'000;

  /// Whether the last slow yield still counts.
  bool is_known() const { return is_known_; }
  /// Whether to yield, and to tell OnYield how long it took. False: sleep.
  bool MayYield(int64_t now_ns) const { return !is_known_ || now_ns >= try_at_ns_; }

  void OnYield(int64_t took_ns, int64_t now_ns) {
    if (is_known_ && took_ns < kFastYieldNs) {
      if (++fast_yields_ == kFastYields) is_known_ = false;
      return;
    }
    if (!is_known_ && took_ns <= kSlowYieldNs) return;
    // What seemed to have ended a moment ago goes on.
    const bool goes_on = now_ns - try_at_ns_ < kLongestTrialNs;
    trial_ns_ = goes_on ? LaterTrial() : kFirstTrialNs;
    try_at_ns_ = now_ns + trial_ns_;
    fast_yields_ = 0;
    is_known_ = true;
  }

 private:
  int64_t LaterTrial() const {
    return trial_ns_ * 2 < kLongestTrialNs ? trial_ns_ * 2 : kLongestTrialNs;
  }

  bool is_known_ = false;
  uint32_t fast_yields_ = 0;
  int64_t trial_ns_ = kFirstTrialNs;  ///< From the last slow yield to the trial.
  int64_t try_at_ns_ = -kLongestTrialNs;
};

}  // namespace uroce::cpu
