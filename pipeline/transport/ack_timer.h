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
  /// The timeout of the attribute; kNever when the code is 0.
  Nanos timeout() const { return timeout_; }
  /// When the timer expires; kNever while it does not run.
  Nanos deadline() const { return deadline_; }
  bool running() const { return deadline_ != kNever; }

  /// Starts the timer at `now`. Each timeout in a row makes the wait longer. `round_trip` is 0
  /// where no round trip is measured.
  void Start(Nanos now, Nanos round_trip) {
    deadline_ = timeout_ == kNever ? kNever : now + Wait(round_trip);
  }
  void Stop() { deadline_ = kNever; }
  /// Returns true when the timer has expired at `now`. It then counts a timeout and stops.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
    backoff_ = std::min<uint8_t>(backoff_ + 1, kMaxBackoff);
    return true;
  }
  /// Resets the count of timeouts: something new was acknowledged, or the queue pair is reset.
  void ForgetTimeouts() { backoff_ = 0; }
  /// True when nothing was acknowledged since the last timeout.
  bool timed_out() const { return backoff_ != 0; }

 private:
  /// Each timeout in a row doubles the next one, up to 4 times the attribute, which is as late as a
  /// requester may expire. A slow peer, which needs more time than the attribute, would otherwise
  /// receive the same packets again and again, and have more work each time.
  static constexpr uint8_t kMaxBackoff = 2;
  /// Where round trips are measured, the timer waits for this many of them, within the same bounds:
  /// a peer that always answers late has not lost the packets.
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
