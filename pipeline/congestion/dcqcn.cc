// SPDX-License-Identifier: Apache-2.0
// DCQCN: the reaction point of one flow, as the paper defines it or in the integers of NVIDIA's
// NICs, and when a receiver of marked packets sends CNPs (docs/protocol/congestion.md, sections 4,
// 6 and 7).
#include "pipeline/congestion/dcqcn.h"

#include <algorithm>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

double GainOf(const ReactionSettings& settings) { return (1024.0 - settings.dce_tcp_g) / 1024.0; }

double AdditiveStep(const ReactionSettings& settings, double line_bps) {
  return settings.rpg_ai_rate != 0 ? settings.rpg_ai_rate * kMegabit
                                   : std::min(40e6, line_bps / 400);
}

double HyperStep(const ReactionSettings& settings, double line_bps) {
  return settings.rpg_hai_rate != 0 ? settings.rpg_hai_rate * kMegabit
                                    : std::min(200e6, line_bps / 80);
}

double MaxRate(const ReactionSettings& settings, double line_bps) {
  if (settings.rpg_max_rate == 0) return line_bps;
  return std::min(line_bps, settings.rpg_max_rate * kMegabit);
}

}  // namespace

Dcqcn::Dcqcn(const ReactionSettings& settings, double line_bps, Nanos now)
    : line_(MaxRate(settings, line_bps)), rates_{.current = line_, .target = line_} {
  if (settings.rate_to_set_on_first_cnp != 0) {
    const double first = std::min(line_, settings.rate_to_set_on_first_cnp * kMegabit);
    rates_ = {.current = first, .target = first};
  }
  Cut(settings, now);
}

void Dcqcn::Cut(const ReactionSettings& settings, Nanos now) {
  const double gain = GainOf(settings);
  const double floor = std::min(line_, settings.rpg_min_rate * kMegabit);
  rates_.target = rates_.current;
  rates_.current = std::max(rates_.current * (1 - alpha_ / 2), floor);
  alpha_ = (1 - gain) * alpha_ + gain;
  timer_events_ = byte_events_ = 0;
  bytes_ = 0;
  cut_at_ = now;
  alpha_at_ = now + Micros(settings.dce_tcp_rtt);
  increase_at_ = now + Micros(settings.rpg_time_reset);
}

void Dcqcn::OnCnp(const ReactionSettings& settings, Nanos now) {
  if (now - cut_at_ < Micros(settings.rate_reduce_monitor_period)) return;
  Cut(settings, now);
}

void Dcqcn::Advance(const ReactionSettings& settings, Nanos now) {
  for (int events = 0; std::min(alpha_at_, increase_at_) <= now; ++events) {
    if (events == kMaxEvents || is_back()) {
      alpha_at_ = std::max(alpha_at_, now + Nanos(1));
      increase_at_ = std::max(increase_at_, now + Nanos(1));
      return;
    }
    if (alpha_at_ <= increase_at_) {
      alpha_ *= 1 - GainOf(settings);
      alpha_at_ = alpha_at_ + Micros(settings.dce_tcp_rtt);
    } else {
      ++timer_events_;
      OnEvent(settings);
      increase_at_ = increase_at_ + Micros(settings.rpg_time_reset);
    }
  }
}

void Dcqcn::OnSent(const ReactionSettings& settings, uint32_t bytes) {
  const uint64_t reset = uint64_t{settings.rpg_byte_reset} * kByteUnit;
  for (bytes_ += bytes; bytes_ >= reset; bytes_ -= reset) {
    ++byte_events_;
    OnEvent(settings);
  }
}

void Dcqcn::OnEvent(const ReactionSettings& settings) {
  rates_ = Increase(settings, rates_, timer_events_, byte_events_, line_);
}

DcqcnRates Increase(const ReactionSettings& settings, DcqcnRates rates, uint32_t timer_events,
                    uint32_t byte_events, double line_bps) {
  const uint32_t fewest = std::min(timer_events, byte_events);
  const uint32_t most = std::max(timer_events, byte_events);
  double target = rates.target;
  if (fewest > settings.rpg_threshold) {
    target += (fewest - settings.rpg_threshold) * HyperStep(settings, line_bps);
  } else if (most >= settings.rpg_threshold) {
    target += AdditiveStep(settings, line_bps);
  }
  target = std::min(target, line_bps);
  return {.current = (rates.current + target) / 2, .target = target};
}

namespace {

constexpr uint32_t kMaxAlpha = 1023;

uint32_t MaxMlxRate(const ReactionSettings& settings, double line_bps) {
  const auto line = static_cast<uint32_t>(line_bps / kMegabit);
  return settings.rpg_max_rate == 0 ? line : std::min(line, settings.rpg_max_rate);
}

/// Mb/s. A setting of 0 stands for `of_line`.
uint32_t StepOf(uint32_t setting, uint32_t of_line) {
  return setting != 0 ? setting : std::max(of_line, 1u);
}

}  // namespace

DcqcnMlx::DcqcnMlx(const ReactionSettings& settings, double line_bps, Nanos now)
    : line_(MaxMlxRate(settings, line_bps)),
      rate_(line_),
      target_(line_),
      alpha_(settings.initial_alpha_value),
      began_(now),
      alpha_at_(now + Micros(settings.dce_tcp_rtt)),
      increase_at_(now + Micros(settings.rpg_time_reset)) {
  if (settings.rate_to_set_on_first_cnp == 0) {
    Cut(settings, now);
  } else {
    rate_ = target_ = std::min(line_, settings.rate_to_set_on_first_cnp);
  }
}

void DcqcnMlx::Cut(const ReactionSettings& settings, Nanos now) {
  const uint64_t by_alpha = uint64_t{rate_} * alpha_ >> settings.rpg_gd;
  const uint64_t most = uint64_t{rate_} * (100 - settings.rpg_min_dec_fac) / 100;
  const bool clamps = settings.clamp_tgt_rate != 0 || byte_stage_ > 0 ||
                      (settings.clamp_tgt_rate_after_time_inc != 0 && time_stage_ > 0);
  if (clamps) target_ = rate_;
  rate_ -= static_cast<uint32_t>(std::min(by_alpha, most));
  rate_ = std::max(rate_, std::min(settings.rpg_min_rate, line_));
  time_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  increase_at_ = now + Micros(settings.rpg_time_reset);
}

void DcqcnMlx::OnCnp(const ReactionSettings& settings, Nanos now) {
  cnp_for_alpha_ = true;
  if (cut_at_ != kNever) return;
  const int64_t period = Micros(settings.rate_reduce_monitor_period).count();
  if (period == 0) return Cut(settings, now);
  cut_at_ = began_ + Nanos(((now - began_).count() / period + 1) * period);
}

void DcqcnMlx::Advance(const ReactionSettings& settings, Nanos now) {
  for (int events = 0; std::min({alpha_at_, increase_at_, cut_at_}) <= now; ++events) {
    if (events == kMaxEvents || is_back()) {
      alpha_at_ = std::max(alpha_at_, now + Nanos(1));
      increase_at_ = std::max(increase_at_, now + Nanos(1));
      if (cut_at_ <= now) cut_at_ = now + Nanos(1);  // A cut is never skipped.
      return;
    }
    if (cut_at_ <= std::min(alpha_at_, increase_at_)) {
      const Nanos at = cut_at_;
      cut_at_ = kNever;
      Cut(settings, at);
    } else if (alpha_at_ <= increase_at_) {
      UpdateAlpha(settings);
      alpha_at_ = alpha_at_ + Micros(settings.dce_tcp_rtt) * AlphaPeriods(settings, now);
    } else {
      ++time_stage_;
      Increase(settings);
      increase_at_ = increase_at_ + Micros(settings.rpg_time_reset);
    }
  }
}

// An alpha of 0 stays 0 without a CNP: such periods are skipped at once.
int64_t DcqcnMlx::AlphaPeriods(const ReactionSettings& settings, Nanos now) const {
  if (alpha_ != 0) return 1;
  return (now - alpha_at_).count() / Micros(settings.dce_tcp_rtt).count() + 1;
}

void DcqcnMlx::UpdateAlpha(const ReactionSettings& settings) {
  alpha_ = alpha_ * settings.dce_tcp_g / kAlphaOne;
  if (cnp_for_alpha_) alpha_ += kAlphaOne - settings.dce_tcp_g;
  alpha_ = std::min(alpha_, kMaxAlpha);
  cnp_for_alpha_ = false;
}

void DcqcnMlx::OnSent(const ReactionSettings& settings, uint32_t bytes) {
  const uint64_t reset = uint64_t{settings.rpg_byte_reset} * kByteUnit;
  for (bytes_ += bytes; bytes_ >= reset; bytes_ -= reset) {
    ++byte_stage_;
    Increase(settings);
  }
}

void DcqcnMlx::Increase(const ReactionSettings& settings) {
  if (std::min(time_stage_, byte_stage_) > settings.rpg_threshold) {
    target_ += StepOf(settings.rpg_hai_rate, std::min(200u, line_ / 80));
  } else if (std::max(time_stage_, byte_stage_) >= settings.rpg_threshold) {
    target_ += StepOf(settings.rpg_ai_rate, std::min(40u, line_ / 400));
  }
  target_ = std::min(target_, line_);
  rate_ = (rate_ + target_) / 2;
}

}  // namespace uroce::congestion
