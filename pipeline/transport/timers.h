// SPDX-License-Identifier: Apache-2.0
// The timers of a requester: ACK timeout, wait after an RNR NAK, tail loss probe; the round trips
// and retries by which they go (docs/protocol/transport.md, section 3.3).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

// Durations that attributes and packets carry as five-bit codes.

/// Local ACK timeout: 4.096 us * 2^code, code 0 means never (docs/protocol/transport.md,
/// section 3.3).
constexpr Nanos AckTimeout(uint8_t code) {
  return code == 0 ? kNever : Nanos(int64_t{4096} << (code & 31));
}

/// The least wait of a requester after an RNR NAK (docs/protocol/transport.md, section 3.3).
constexpr Nanos RnrWait(uint8_t code) {
  constexpr std::array<uint32_t, 32> kTensOfMicroseconds = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Nanos(10'000) * kTensOfMicroseconds[code & 31];
}

/// How many retries a requester has without progress (docs/protocol/transport.md, section 3.3).
/// A count of retries that progress refills. Pure.
class RetryBudget {
 public:
  /// Range: 0 to 7.
  void Configure(uint8_t limit) { limit_ = left_ = limit; }
  void Refill() { left_ = limit_; }
  /// False: none is left.
  [[nodiscard]] bool Take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  uint8_t limit() const { return limit_; }
  /// The number of retries taken since the last refill.
  uint8_t taken() const { return static_cast<uint8_t>(limit_ - left_); }

 private:
  uint8_t limit_ = 0;
  uint8_t left_ = 0;
};

/// The ACK timeout of a requester (docs/protocol/transport.md, section 3.3).
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

/// The wait of a requester after an RNR NAK, before it sends again
/// (docs/protocol/transport.md, section 3.3).
/// Pure, owned by a LossRecovery.
class RnrTimer {
 public:
  /// `retry`: rnr_retry, 0 to 7, 7 = for ever.
  void Configure(uint8_t retry) { retries_.Configure(retry); }
  /// True during a wait: nothing is sent before the deadline.
  bool waiting() const { return deadline_ != kNever; }
  Nanos deadline() const { return deadline_; }
  /// True when an RNR NAK of `psn` says nothing new: the wait is for that packet or a later one.
  bool IsKnown(wire::Psn psn) const { return waiting() && psn_.Since(psn) >= 0; }

  /// Takes one retry. False: no retry is left.
  [[nodiscard]] bool TakeRetry() { return for_ever() || retries_.Take(); }
  /// Describes the resend after the wait, by the retry that was taken last.
  Resend resend() const {
    return {.cause = ResendCause::kRnrNak,
            .number = retries_.taken(),
            .limit = for_ever() ? Resend::kForEver : retries_.limit()};
  }
  /// Waits for `psn`, which was refused.
  void Start(wire::Psn psn, Nanos deadline) {
    psn_ = psn;
    deadline_ = deadline;
  }
  void Stop() { deadline_ = kNever; }
  /// True: the wait has just ended.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
    return true;
  }
  /// Something new is acknowledged: all before `una`.
  void OnProgress(wire::Psn una) {
    retries_.Refill();
    // Acknowledged packets before the refused one do not end the wait.
    if (una.Since(psn_) > 0) deadline_ = kNever;
  }

 private:
  static constexpr uint8_t kForEver = 7;
  bool for_ever() const { return retries_.limit() == kForEver; }

  Nanos deadline_ = kNever;
  wire::Psn psn_;  ///< The packet that was refused last.
  RetryBudget retries_;
};

/// Measures the round-trip time of a requester.
/// Measures one round trip at a time. A round begins with a packet that is sent, and ends when
/// that packet, or one sent later, is known to have arrived. Pure, owned by a LossRecovery.
class RoundTrip {
 public:
  /// The packet `psn` is sent: begins a round unless one is under way.
  void OnSent(wire::Psn psn, Nanos now) {
    if (began_ != kNever) return;
    began_ = now;
    first_ = psn;
  }
  /// Whether `psn` was sent for the first time in this round: its arrival ends the round.
  bool Covers(wire::Psn psn) const { return psn.Since(first_) >= 0; }
  /// Whether a packet before `end` was sent for the first time in this round.
  bool CoversBefore(wire::Psn end) const { return end.Since(first_) > 0; }
  /// A packet of this round has arrived. False: no round is under way, and nothing changes.
  bool End(Nanos now) {
    if (began_ == kNever) return false;
    const Nanos sample = now - began_;
    const int64_t change = (sample - smoothed_).count() / kSmoothing;
    smoothed_ = measured() ? smoothed_ + Nanos(change) : sample;
    began_ = kNever;
    newest_ = sample;
    return true;
  }
  /// Gives up the round under way: its packets are sent again.
  void GiveUp() { began_ = kNever; }
  /// Forgets all that was measured.
  void Reset() {
    began_ = kNever;
    smoothed_ = Nanos();
  }

  bool measured() const { return smoothed_ != Nanos(); }
  /// The newest round-trip time; 0 when none was measured since the last call.
  Nanos TakeNewest() { return std::exchange(newest_, Nanos()); }
  /// The smoothed round-trip time; 0 when none was measured yet.
  Nanos smoothed() const { return smoothed_; }

 private:
  /// A new sample has a weight of 1 / kSmoothing.
  static constexpr int64_t kSmoothing = 8;

  Nanos began_ = kNever;
  Nanos smoothed_;
  Nanos newest_;
  wire::Psn first_;
};

/// The timer of tail loss probes: a requester that has received nothing for some round trips
/// resends a packet (pipeline/transport/loss-recovery.md).
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
