// SPDX-License-Identifier: Apache-2.0
// Computes the next send time of a flow from its rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::congestion {

/// After a pause a flow may send at once at most kMaxBurstBytes, a burst of a port, and at most
/// the bytes of its rate in kMaxBurstTime, the time by which a worker may be late.
inline constexpr int64_t kMaxBurstBytes = 64 * 1024;
inline constexpr Nanos kMaxBurstTime{100'000};

/// How long `bytes` take at `rate_bps`. Range: `rate_bps` >= 1.
inline Nanos TimeOf(double bytes, double rate_bps) {
  return Nanos(std::llrint(bytes * 8e9 / rate_bps));
}

/// A rate, stored so that the calculation for each packet needs no division.
class Pacer {
 public:
  double rate_bps() const { return rate_bps_; }
  /// Packets that leave late by at most `credit` do not lower the rate: the next ones leave sooner.
  /// Range: `rate_bps` >= 1.
  void SetRate(double rate_bps, Nanos credit = kMaxBurstTime) {
    rate_bps_ = rate_bps;
    nanos_per_byte_ = 8e9 / rate_bps;
    credit_ = std::min(credit, TimeOf(kMaxBurstBytes, rate_bps));
  }
  /// A packet of `bytes`, due at `next_send`, leaves at `now`: when the packet after it may leave.
  Nanos NextSend(Nanos next_send, Nanos now, double bytes) const {
    const Nanos time(std::llrint(bytes * nanos_per_byte_));
    return std::max(next_send, now - credit_) + time;
  }

 private:
  double rate_bps_ = 0;
  double nanos_per_byte_ = 0;
  Nanos credit_;
};

}  // namespace uroce::congestion
