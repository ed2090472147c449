// SPDX-License-Identifier: Apache-2.0
// The timer of tail loss probes: a requester that has received nothing for some round trips
// resends a packet (pipeline/transport/README.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::transport {

/// Each probe without an answer doubles the wait for the next one. A wait has kParts parts, and a
/// look at the timer ends at most one of them: an owner that has stood still looks at what arrived
/// meanwhile before it looks at the timer again, and nothing is sent again that only lies there.
/// Pure, owned by a LossRecovery.
class TailLossProbe {
 public:
  /// The end of this part of the wait.
  Nanos deadline() const { return deadline_; }
  /// Starts the timer at `now` if the probe is due before `ack_timeout` (kNever when there is
  /// none). Range: `round_trip` > 0.
  void Start(Nanos now, Nanos round_trip, Nanos ack_timeout) {
    const Nanos wait = std::max(round_trip * kRoundTrips, kLeastWait) * (int64_t{1} << unanswered_);
    const Nanos longest = ack_timeout == kNever ? kLongestWait : ack_timeout;
    part_ = Nanos(wait.count() / kParts);
    parts_left_ = kParts;
    deadline_ = wait < longest ? now + part_ : kNever;
  }
  void Stop() { deadline_ = kNever; }
  /// True when a probe is due at `now`. The timer is then stopped.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = --parts_left_ == 0 ? kNever : now + part_;
    if (parts_left_ != 0) return false;
    unanswered_ = std::min<uint8_t>(unanswered_ + 1, kMaxUnanswered);
    return true;
  }
  /// A response has come, whatever it says.
  void OnResponse() { unanswered_ = 0; }
  void Reset() {
    deadline_ = kNever;
    unanswered_ = 0;
  }

 private:
  /// A probe waits for kRoundTrips without a response, and at least for kLeastWait:
  /// acknowledgements wait for the end of a burst, and programs wait for a CPU.
  static constexpr int64_t kRoundTrips = 3;
  static constexpr Nanos kLeastWait{100'000};
  /// The longest wait for a probe of a queue pair without an ACK timeout.
  static constexpr Nanos kLongestWait{64'000'000};
  static constexpr uint8_t kMaxUnanswered = 16;
  static constexpr uint8_t kParts = 4;

  Nanos deadline_ = kNever;
  Nanos part_{0};
  uint8_t parts_left_ = 0;  ///< Of the wait that runs.
  uint8_t unanswered_ = 0;  ///< Probes since the last response.
};

}  // namespace uroce::transport
