// SPDX-License-Identifier: Apache-2.0
// Measures the round-trip time of a requester.
#pragma once

#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

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

}  // namespace uroce::transport
