// SPDX-License-Identifier: Apache-2.0
// The next send time of a flow of a given rate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::congestion {

/// What a flow may send at once after a pause: at most a burst of a port, and no more than its rate
/// makes of the time by which a worker is late.
inline constexpr int64_t kMaxBurstBytes = 64 * 1024;
inline constexpr Nanos kMaxBurstTime{100'000};

/// How long `bytes` take. Range: `rate_bps` >= 1.
inline Nanos TimeOf(double bytes, double rate_bps) {
  return Nanos(static_cast<int64_t>(bytes * 8e9 / rate_bps));
}

/// When the packet after one of `bytes` may leave, which leaves now. `next_send` was its time.
inline Nanos NextSend(Nanos next_send, Nanos now, double bytes, double rate_bps) {
  const Nanos credit = std::min(kMaxBurstTime, TimeOf(kMaxBurstBytes, rate_bps));
  return std::max(next_send, now - credit) + TimeOf(bytes, rate_bps);
}

}  // namespace uroce::congestion
