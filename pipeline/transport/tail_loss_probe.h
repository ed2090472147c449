// SPDX-License-Identifier: Apache-2.0
// When a requester that has heard nothing for some round trips asks its responder where it is
// (pipeline/transport/README.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::transport {

/// The timer of tail loss probes. Each probe without an answer doubles the wait for the next one.
/// Pure, owned by a LossRecovery.
class TailLossProbe {
 public:
  Nanos deadline() const { return deadline_; }
  /// Runs from `now` on, if a probe comes before the ACK timeout (kNever: there is none).
  /// Range: `round_trip` > 0.
  void Start(Nanos now, Nanos round_trip, Nanos ack_timeout) {
    const Nanos wait = std::max(round_trip * kRoundTrips, kLeastWait) * (int64_t{1} << unanswered_);
    const Nanos longest = ack_timeout == kNever ? kLongestWait : ack_timeout;
    deadline_ = wait < longest ? now + wait : kNever;
  }
  void Stop() { deadline_ = kNever; }
  /// True: a probe is due, and the timer is stopped.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
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
  /// A probe waits for so many round trips without a word, and at least so long: acknowledgements
  /// wait for the end of a burst, and programs for their CPU.
  static constexpr int64_t kRoundTrips = 3;
  static constexpr Nanos kLeastWait{100'000};
  /// Where the queue pair has no ACK timeout, there are no probes beyond this wait.
  static constexpr Nanos kLongestWait{64'000'000};
  static constexpr uint8_t kMaxUnanswered = 16;

  Nanos deadline_ = kNever;
  uint8_t unanswered_ = 0;  ///< Probes since the last response.
};

}  // namespace uroce::transport
