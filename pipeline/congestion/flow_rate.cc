// SPDX-License-Identifier: Apache-2.0
// Pacing of one flow: when it may send its next packet (docs/protocol/congestion.md, section 8).
#include "pipeline/congestion/flow_rate.h"

namespace uroce::congestion {
namespace {

/// How late a worker that sleeps between packets may wake without a loss of rate.
constexpr Nanos kMaxLate{2'000'000};

}  // namespace

LimitedFlow* LimitedFlows::Begin(FlowRate& owner, const Environment& environment, Nanos now) {
  if (flows_.size() == flows_.capacity()) return nullptr;
  const auto line_bps = static_cast<double>(environment.line_bps);
  flows_.push_back({.point = ReactionPoint(environment.settings, line_bps, now),
                    .pacer = {},
                    .environment = &environment,
                    .owner = &owner,
                    .allowed = Nanos(0)});
  return &flows_.back();
}

void LimitedFlows::End(LimitedFlow& flow) {
  flow.owner->limited_ = nullptr;
  flow.owner->next_send_ = flow.owner->next_by_limit_;
  if (&flow != &flows_.back()) {
    flow = flows_.back();
    flow.owner->limited_ = &flow;
  }
  flows_.pop_back();
}

void LimitedFlows::TendNext(Nanos now) {
  if (next_ >= flows_.size()) next_ = 0;
  LimitedFlow& flow = flows_[next_++];
  flow.point.Advance(flow.environment->settings.rp, now);
  if (flow.point.is_back()) return End(flow);
  Hasten(flow, now);
}

// At the lowest rate a packet takes tens of milliseconds, in which the rate rises a thousandfold.
void LimitedFlows::Hasten(LimitedFlow& flow, Nanos now) {
  FlowRate& owner = *flow.owner;
  const double former_bps = flow.pacer.rate_bps();
  const double rate_bps = flow.point.rate_bps();
  // Nothing was sent yet, or something else holds the flow back.
  if (former_bps == 0 || owner.next_send_ != flow.allowed) return;
  if (rate_bps <= former_bps || flow.allowed <= now) return;
  const auto left = static_cast<double>((flow.allowed - now).count());
  flow.pacer.SetRate(rate_bps);
  flow.allowed = now + Nanos(std::llrint(left * former_bps / rate_bps));
  owner.next_send_ = std::max(flow.allowed, owner.next_by_limit_);
}

bool FlowRate::OnCnp(const Environment& environment, LimitedFlows& flows, Nanos now) {
  if (limited_ == nullptr) {
    limited_ = flows.Begin(*this, environment, now);
    return limited_ != nullptr;
  }
  const ReactionSettings& settings = environment.settings.rp;
  limited_->point.Advance(settings, now);
  limited_->point.OnCnp(settings, now);
  return true;
}

void FlowRate::SetLimit(double bps) {
  next_by_limit_ = Nanos(0);
  if (limited_ == nullptr) next_send_ = Nanos(0);  // A time that the former limit gave.
  limit_ = Pacer();
  if (bps != 0) limit_.SetRate(bps, kMaxLate);
}

void FlowRate::OnSentLimited(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes,
                             Nanos now) {
  if (limited_ != nullptr) PaceByPoint(flows, bytes, answer_bytes, now);
  if (limit_.rate_bps() == 0) return;
  next_by_limit_ = limit_.NextSend(next_by_limit_, now, bytes);
  next_send_ = std::max(next_send_, next_by_limit_);
}

void FlowRate::PaceByPoint(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes, Nanos now) {
  const ReactionSettings& settings = limited_->environment->settings.rp;
  double rate_bps = 0;
  if (!limited_->point.OnSent(settings, bytes, now, rate_bps)) return flows.End(*limited_);
  Pacer& pacer = limited_->pacer;
  if (rate_bps != pacer.rate_bps()) pacer.SetRate(rate_bps);
  const double counted = static_cast<double>(bytes) + static_cast<double>(answer_bytes);
  next_send_ = limited_->allowed = pacer.NextSend(next_send_, now, counted);
}

void FlowRate::Reset(LimitedFlows& flows) {
  if (limited_ != nullptr) flows.End(*limited_);
  next_send_ = next_by_limit_;
}

}  // namespace uroce::congestion
