// SPDX-License-Identifier: Apache-2.0
// DCQCN's reaction point as the paper has it (docs/protocol/congestion.md, section 6).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {

/// Current and target rate, in bits a second.
struct DcqcnRates {
  double current;
  double target;
};

/// An increase step, after so many events of the timer and of the byte counter since the last cut:
/// fast recovery, additive or hyper increase.
DcqcnRates Increase(const ReactionSettings& settings, DcqcnRates rates, uint32_t timer_events,
                    uint32_t byte_events, double line_bps);

/// One flow, from its first CNP until its rate is back. Rates are in bits a second. Timers are
/// played when they matter: Advance comes before each other call with a time.
/// Pure. `now` never goes back.
class Dcqcn {
 public:
  /// The first CNP.
  Dcqcn(const ReactionSettings& settings, double line_bps, Nanos now);

  /// Plays the timers that have fired up to `now`.
  void Advance(const ReactionSettings& settings, Nanos now);
  /// A further CNP. Within rate_reduce_monitor_period of the last cut it says nothing new.
  void OnCnp(const ReactionSettings& settings, Nanos now);
  /// `bytes` have left, those that are sent again too.
  void OnSent(const ReactionSettings& settings, uint32_t bytes);

  double rate_bps() const { return rates_.current; }
  double target_bps() const { return rates_.target; }
  double alpha() const { return alpha_; }
  /// Within a thousandth of the line rate: nothing is to be limited any more.
  bool is_back() const { return rates_.current >= line_ * 0.999; }

 private:
  void Cut(const ReactionSettings& settings, Nanos now);
  void OnEvent(const ReactionSettings& settings);

  double line_;
  DcqcnRates rates_;
  double alpha_ = 1;
  uint64_t bytes_ = 0;  ///< Since the last byte event.
  uint32_t timer_events_ = 0;
  uint32_t byte_events_ = 0;
  Nanos cut_at_;
  Nanos alpha_at_;     ///< Next event of the alpha timer.
  Nanos increase_at_;  ///< Next event of the rate timer.
};

}  // namespace uroce::congestion
