// SPDX-License-Identifier: Apache-2.0
// How long a round trip takes.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Measures one round trip after the other. A round begins with a packet that is sent, and ends
/// when that packet, or one sent later, is known to have arrived. Pure, owned by a LossRecovery.
class RoundTrip {
 public:
  /// The packet `psn` is sent: a round begins with it if none is under way.
  void OnSent(wire::Psn psn, Nanos now) {
    if (began_ != kNever) return;
    began_ = now;
    first_ = psn;
  }
  /// Whether `psn` was sent for the first time in this round: its arrival ends the round.
  bool Covers(wire::Psn psn) const { return psn.Since(first_) >= 0; }
  /// Whether a packet before `end` was.
  bool CoversBefore(wire::Psn end) const { return end.Since(first_) > 0; }
  /// Something sent in this round has arrived. False: no round is under way, and nothing changes.
  bool End(Nanos now) {
    if (began_ == kNever) return false;
    const Nanos sample = now - began_;
    const int64_t change = (sample - smoothed_).count() / kSmoothing;
    smoothed_ = measured() ? smoothed_ + Nanos(change) : sample;
    began_ = kNever;
    return true;
  }
  /// Gives the round under way up: its packets are sent again.
  void GiveUp() { began_ = kNever; }
  /// Forgets all that was measured.
  void Reset() {
    began_ = kNever;
    smoothed_ = Nanos();
  }

  bool measured() const { return smoothed_ != Nanos(); }
  /// Smoothed; 0: not measured yet.
  Nanos smoothed() const { return smoothed_; }

 private:
  /// The weight of a new sample is one in so many.
  static constexpr int64_t kSmoothing = 8;

  Nanos began_ = kNever;
  Nanos smoothed_;
  wire::Psn first_;
};

}  // namespace uroce::transport
