// SPDX-License-Identifier: Apache-2.0
// DCQCN's reaction point as the paper defines it (docs/protocol/congestion.md, section 6).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {

/// Current and target rate, in bits per second.
struct DcqcnRates {
  double current;
  double target;
};

/// One increase step: fast recovery, additive increase or hyper increase. `timer_events` and
/// `byte_events` are the events of the timer and of the byte counter since the last cut.
DcqcnRates Increase(const ReactionSettings& settings, DcqcnRates rates, uint32_t timer_events,
                    uint32_t byte_events, double line_bps);

/// One flow, from its first CNP until its rate is back at the line rate. Rates are in bits per
/// second. Timers run only in Advance, which the caller calls before OnCnp and OnSent.
/// Pure. `now` never goes back.
class Dcqcn {
 public:
  /// Made at the first CNP of the flow.
  Dcqcn(const ReactionSettings& settings, double line_bps, Nanos now);

  /// Applies the events of all timers that have expired by `now`.
  void Advance(const ReactionSettings& settings, Nanos now);
  /// A further CNP. It is ignored within rate_reduce_monitor_period of the last cut.
  void OnCnp(const ReactionSettings& settings, Nanos now);
  /// `bytes` were sent, retransmissions included.
  void OnSent(const ReactionSettings& settings, uint32_t bytes);

  double rate_bps() const { return rates_.current; }
  double target_bps() const { return rates_.target; }
  double alpha() const { return alpha_; }
  /// True within a thousandth of the line rate: the flow needs no limit any more.
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
