// SPDX-License-Identifier: Apache-2.0
// The worker's clock.
#pragma once

#include <cstdint>
#include <ctime>

#include "nic/base/counter_time.h"
#include "pipeline/base/types.h"
#include "pipeline/cpu/counter.h"

namespace uroce {

/// Nanoseconds of CLOCK_MONOTONIC from the processor's counter, which Tend keeps to it. Uses
/// CLOCK_MONOTONIC itself where the counter's rate is not constant. One thread.
class Clock {
 public:
  /// How often Tend is to be called.
  static constexpr Nanos kTendInterval{1'000'000'000};

  /// The first calibration takes about 10 ms.
  Clock();
  /// Never goes back.
  Nanos Now() const {
    return has_counter_ ? time_.At(cpu::ReadCounter()) : SystemNow(CLOCK_MONOTONIC);
  }
  /// The time since 1970. Never goes back, but where the system's clock is set back by
  /// kMostHeld or more; then it follows within kTendInterval, as it follows other changes.
  Nanos Wall();
  /// Reads the system's clocks.
  void Tend();

 private:
  static constexpr Nanos kMostHeld{1'000'000'000};
  static Nanos SystemNow(clockid_t clock);
  static CounterTime::Reading Read();
  /// Takes about 10 ms.
  static CounterTime Calibrated();
  static Nanos ReadWallOffset();

  const bool has_counter_;
  CounterTime time_;
  Nanos wall_offset_;
  Nanos last_wall_{0};
};

}  // namespace uroce
