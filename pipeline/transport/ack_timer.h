// SPDX-License-Identifier: Apache-2.0
// The ACK timeout of a requester (docs/protocol/transport.md, section 3.3).
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/timer_codes.h"

namespace uroce::transport {

/// Pure, owned by a LossRecovery.
class AckTimer {
 public:
  /// `code`: 0 to 31, 0 = no timeout.
  void Configure(uint8_t code) { timeout_ = AckTimeout(code); }
  /// The attribute; kNever: there is none.
  Nanos timeout() const { return timeout_; }
  /// kNever: it does not run.
  Nanos deadline() const { return deadline_; }
  bool running() const { return deadline_ != kNever; }

  /// Runs from `now` on, longer after each timeout in a row. `round_trip`: 0 where none is
  /// measured.
  void Start(Nanos now, Nanos round_trip) {
    deadline_ = timeout_ == kNever ? kNever : now + Wait(round_trip);
  }
  void Stop() { deadline_ = kNever; }
  /// True: it has expired, which is a timeout, and is stopped.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
    backoff_ = std::min<uint8_t>(backoff_ + 1, kMaxBackoff);
    return true;
  }
  /// Something new was acknowledged, or the queue pair is reset: the next timeout is the first.
  void ForgetTimeouts() { backoff_ = 0; }
  /// There was a timeout, and nothing was acknowledged since.
  bool timed_out() const { return backoff_ != 0; }

 private:
  /// Each timeout in a row doubles the next one, up to 4 times the attribute, which is as late as a
  /// requester may expire. A peer that takes longer for what is in flight than the attribute says
  /// would else get it again and again, each time with more to do.
  static constexpr uint8_t kMaxBackoff = 2;
  /// Where round trips are measured the timer waits for so many, within the same bounds: what takes
  /// long every time is not lost.
  static constexpr int64_t kRoundTrips = 3;

  Nanos Wait(Nanos round_trip) const {
    const Nanos longest = timeout_ * (1 << kMaxBackoff);
    return std::max(timeout_ * (1 << backoff_), std::min(round_trip * kRoundTrips, longest));
  }

  Nanos deadline_ = kNever;
  Nanos timeout_ = kNever;
  uint8_t backoff_ = 0;  ///< Timeouts since the last progress, up to kMaxBackoff.
};

}  // namespace uroce::transport
