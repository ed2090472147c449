// SPDX-License-Identifier: Apache-2.0
// The time of a worker's turn, for all its parts.
#pragma once

#include <cstdint>

#include "nic/base/clock.h"
#include "pipeline/base/types.h"

namespace uroce::datapath {

/// Time stands still within a turn. One thread.
class TurnTime {
 public:
  void Begin(Nanos now) {
    ++number_;
    now_ = now;
    if (now - tended_ < Clock::kTendInterval) return;
    clock_.Tend();
    tended_ = now;
  }
  Nanos now() const { return now_; }
  /// The number of the turn; the first turn is 1.
  uint64_t number() const { return number_; }
  /// The time of the clock at the call, which is later than `now()`.
  Nanos ReadClock() const { return clock_.Now(); }
  /// Says what time it is since 1970, at each call.
  Clock& clock() { return clock_; }

 private:
  Clock clock_;
  Nanos now_ = clock_.Now();
  Nanos tended_ = now_;
  uint64_t number_ = 0;
};

}  // namespace uroce::datapath
