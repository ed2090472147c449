// SPDX-License-Identifier: Apache-2.0
// The reaction point of one flow: Dcqcn or DcqcnMlx, by the profile.
#pragma once

#include <cstdint>
#include <variant>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/dcqcn_mlx.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {

/// Exists from the first CNP of a flow until its rate is back. Pure. See Dcqcn and DcqcnMlx.
class ReactionPoint {
 public:
  ReactionPoint(const Settings& settings, double line_bps, Nanos now)
      : form_(Make(settings, line_bps, now)) {}

  void Advance(const ReactionSettings& settings, Nanos now) {
    std::visit([&](auto& form) { form.Advance(settings, now); }, form_);
  }
  void OnCnp(const ReactionSettings& settings, Nanos now) {
    std::visit([&](auto& form) { form.OnCnp(settings, now); }, form_);
  }
  /// A packet leaves at `now`; sets `rate_bps`. False: the rate is back, no limit is needed.
  bool OnSent(const ReactionSettings& settings, uint32_t bytes, Nanos now, double& rate_bps) {
    return std::visit(
        [&](auto& form) {
          form.Advance(settings, now);
          form.OnSent(settings, bytes);
          rate_bps = form.rate_bps();
          return !form.is_back();
        },
        form_);
  }
  double rate_bps() const {
    return std::visit([](const auto& form) { return form.rate_bps(); }, form_);
  }
  double target_bps() const {
    return std::visit([](const auto& form) { return form.target_bps(); }, form_);
  }
  /// How congested the path is: 0 to 1.
  double alpha() const {
    if (const Dcqcn* paper = std::get_if<Dcqcn>(&form_)) return paper->alpha();
    return 1.0 * std::get<DcqcnMlx>(form_).alpha() / DcqcnMlx::kAlphaOne;
  }
  bool is_back() const {
    return std::visit([](const auto& form) { return form.is_back(); }, form_);
  }
  const std::variant<Dcqcn, DcqcnMlx>& form() const { return form_; }

 private:
  using Form = std::variant<Dcqcn, DcqcnMlx>;
  static Form Make(const Settings& settings, double line_bps, Nanos now) {
    if (settings.profile == Profile::kDcqcnMlx) return DcqcnMlx(settings.rp, line_bps, now);
    return Dcqcn(settings.rp, line_bps, now);
  }

  Form form_;
};

}  // namespace uroce::congestion
