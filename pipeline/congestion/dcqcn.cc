// SPDX-License-Identifier: Apache-2.0
#include "pipeline/congestion/dcqcn.h"

#include <algorithm>

#include "pipeline/congestion/units.h"

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

}  // namespace uroce::congestion
