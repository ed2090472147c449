// SPDX-License-Identifier: Apache-2.0
// DCQCN's reaction point in the integers of NVIDIA's NICs (docs/protocol/congestion.md, section 7).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {

/// One flow, from its first CNP until its rate is back at the line rate. Rates are in Mb/s, alpha
/// in 1/1024. Timers run only in Advance, which the caller calls before OnCnp and OnSent.
/// Pure. `now` never goes back.
class DcqcnMlx {
 public:
  /// Made at the first CNP. Cuts the rate at once, unless rate_to_set_on_first_cnp sets the rate.
  DcqcnMlx(const ReactionSettings& settings, double line_bps, Nanos now);

  /// Applies the events of all timers that have expired by `now`.
  void Advance(const ReactionSettings& settings, Nanos now);
  /// A further CNP: the rate is cut at the end of its rate_reduce_monitor_period.
  void OnCnp(const ReactionSettings& settings, Nanos now);
  /// `bytes` were sent, retransmissions included.
  void OnSent(const ReactionSettings& settings, uint32_t bytes);

  double rate_bps() const { return rate_ * 1e6; }
  double target_bps() const { return target_ * 1e6; }
  /// In parts of kAlphaOne.
  uint32_t alpha() const { return alpha_; }
  static constexpr uint32_t kAlphaOne = 1024;
  /// True within a thousandth of the line rate: the flow needs no limit any more.
  bool is_back() const {
    return cut_at_ == kNever && uint64_t{rate_} * 1000 >= uint64_t{line_} * 999;
  }

 private:
  void Cut(const ReactionSettings& settings, Nanos now);
  void Increase(const ReactionSettings& settings);
  void UpdateAlpha(const ReactionSettings& settings);
  int64_t AlphaPeriods(const ReactionSettings& settings, Nanos now) const;

  uint32_t line_;
  uint32_t rate_;
  uint32_t target_;
  uint32_t alpha_;
  uint32_t time_stage_ = 0;
  uint32_t byte_stage_ = 0;
  uint64_t bytes_ = 0;         ///< Since the last byte event.
  bool cnp_for_alpha_ = true;  ///< A CNP came since the last update of alpha.
  Nanos began_;                ///< Start of the first monitor period.
  Nanos cut_at_ = kNever;      ///< End of a monitor period in which a CNP came.
  Nanos alpha_at_;
  Nanos increase_at_;
};

}  // namespace uroce::congestion
