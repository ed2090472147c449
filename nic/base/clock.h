// SPDX-License-Identifier: Apache-2.0
// The worker's clock: read once per turn.
#pragma once

#include <x86intrin.h>

#include <cstdint>
#include <ctime>

#include "pipeline/base/types.h"

namespace uroce {

/// Monotonic nanoseconds from the time stamp counter, calibrated by CLOCK_MONOTONIC at
/// construction. Uses CLOCK_MONOTONIC itself where the counter's rate is not constant. One thread.
class Clock {
 public:
  /// The calibration takes about 10 ms.
  Clock();
  Nanos Now() const {
    if (ns_per_tick_shifted_ == 0) return SystemNow(CLOCK_MONOTONIC);
    const auto ticks = static_cast<Wide>(__rdtsc() - base_ticks_);
    return base_ + Nanos(static_cast<int64_t>(ticks * ns_per_tick_shifted_ >> kShift));
  }
  /// `now` since 1970. Follows changes of the system's clock within a second.
  Nanos Wall(Nanos now) {
    if (now - wall_read_ > Nanos(1'000'000'000)) ReadWall(now);
    return now + wall_offset_;
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr int kShift = 40;
  static Nanos SystemNow(clockid_t clock);
  void ReadWall(Nanos now);

  uint64_t base_ticks_ = 0;
  uint64_t ns_per_tick_shifted_ = 0;
  Nanos base_;
  Nanos wall_read_;
  Nanos wall_offset_;
};

}  // namespace uroce
