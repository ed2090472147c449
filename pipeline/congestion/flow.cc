// SPDX-License-Identifier: Apache-2.0
#include "pipeline/congestion/flow.h"

#include <algorithm>
#include <cmath>

#include "pipeline/congestion/settings.h"

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

namespace {

constexpr uint32_t kThousand = 1000;
constexpr uint32_t kKilobyte = 1024;

/// The time that a small window adds to its target: fs_range at fs_min_cwnd, nothing from
/// fs_max_cwnd on, and between them as 1 / sqrt(window) (Swift, section 3.5).
double FlowScaling(const DelaySettings& settings, double window) {
  const double least = 1 / std::sqrt(static_cast<double>(settings.fs_max_cwnd));
  const double most = 1 / std::sqrt(settings.fs_min_cwnd / static_cast<double>(kThousand));
  if (most <= least) return 0;
  const double share = (1 / std::sqrt(window) - least) / (most - least);
  return std::clamp(share, 0.0, 1.0) * static_cast<double>(Micros(settings.fs_range).count());
}

/// A queue makes the round trips of few packets about equally long. Where their average is so many
/// times the shortest one, the peer waits for a CPU.
constexpr uint32_t kSpread = 3;

/// A round-trip time in ns: not 0, and less than the initial base delay.
uint32_t InRange(Nanos sample) {
  return static_cast<uint32_t>(std::clamp<int64_t>(sample.count(), 1, UINT32_MAX - 1));
}

}  // namespace

void DelayWindow::Start(const DelaySettings& settings, uint32_t most, uint32_t mtu_bytes,
                        bool tells_waits) {
  *this = {};
  most_ = most;
  tells_waits_ = tells_waits;
  const uint64_t initial = uint64_t{settings.initial_cwnd} * kKilobyte / mtu_bytes;
  SetWindow(settings, std::max<uint64_t>(initial, 1) * kOne);
}

void DelayWindow::SetPeer(uint32_t most, bool tells_waits) {
  most_ = most;
  tells_waits_ = tells_waits;
  with_waits_ns_ = 0;
  window_ = std::min(window_, most * kOne);
}

void DelayWindow::SetWindow(const DelaySettings& settings, uint64_t window) {
  const uint64_t in_parts = std::max<uint64_t>(uint64_t{settings.min_cwnd} * kOne / kThousand, 1);
  const uint64_t least = has_lost_ ? in_parts : std::max<uint64_t>(in_parts, kOne);
  const uint64_t most = uint64_t{most_} * kOne;
  window_ = static_cast<uint32_t>(std::clamp(window, std::min(least, most), most));
}

int64_t DelayWindow::Scaled(const DelaySettings& settings, int64_t base_ns) {
  return base_ns + base_ns * settings.path_scaling / 100;
}

int64_t DelayWindow::OfPath(const DelaySettings& settings) const {
  return Scaled(settings, Base() == UINT32_MAX ? 0 : Base());
}

Nanos DelayWindow::Target(const DelaySettings& settings) const {
  const int64_t of_fabric = Micros(settings.base_target_delay).count();
  const double scaling = FlowScaling(settings, static_cast<double>(window_) / kOne);
  const int64_t with_waits = Scaled(settings, with_waits_ns_);
  return Nanos(std::max({OfPath(settings), with_waits, of_fabric}) + static_cast<int64_t>(scaling));
}

void DelayWindow::NoteBase(uint32_t sample_ns, Nanos now) {
  if (now - base_began_ >= kBaseAge) {
    old_base_ns_ = base_ns_;
    base_ns_ = UINT32_MAX;
    base_began_ = now;
    with_waits_ns_ = 0;
  }
  base_ns_ = std::min(base_ns_, sample_ns);
}

bool DelayWindow::Look(const DelaySettings& settings, uint32_t sample_ns, Nanos now) {
  if (look_samples_ != 0) {
    delay_ns_ = sample_ns;
    if (--look_samples_ == 0) EndLook(settings);
    return true;
  }
  const bool is_long = OfPath(settings) > Micros(settings.base_target_delay).count();
  const Nanos due = Nanos(Base()) * (kLookAfter << look_doublings_);
  if (!is_long || now - looked_ < due) return false;
  looked_ = now;
  look_base_ns_ = Base();
  kept_window_ = window_;
  look_samples_ = kLookSamples;
  SetWindow(settings, window_ / kLookWindow);
  return true;
}

void DelayWindow::EndLook(const DelaySettings& settings) {
  SetWindow(settings, kept_window_);
  const bool learnt = Base() < look_base_ns_ - look_base_ns_ / 8;
  look_doublings_ = learnt ? 0 : std::min<uint8_t>(look_doublings_ + 1, kMostLookDoublings);
}

void DelayWindow::EndSample(const DelaySettings& settings, uint32_t merged, Nanos now,
                            Nanos stalled) {
  const Nanos whole = now - began_;
  began_ = kNever;
  // Threads are known to have waited for so long at most, so this is the least that the path takes.
  const uint32_t sample = InRange(whole - (stalled - stalled_));
  NoteBase(InRange(whole), now);
  if (Look(settings, sample, now)) return;
  const int64_t target = Target(settings).count();
  target_ns_ = InRange(Nanos(target));
  if (sample > target && merged > kMostMerged) return;
  const uint32_t shorter = std::min(sample, delay_ns_);
  delay_ns_ = sample;
  if (sample <= target) {
    long_rounds_ = 0;
    Grow(settings);
  } else if (!tells_waits_) {
    OnLongRound(settings, sample, target);
  } else {
    starting_ = false;
    low_rounds_ = 0;
    Shrink(settings, std::max(shorter, 1u), target);
  }
  was_full_ = false;
}

uint64_t DelayWindow::Step(const DelaySettings& settings) {
  return uint64_t{settings.ai} * kOne / kThousand;
}

void DelayWindow::OnLongRound(const DelaySettings& settings, uint32_t sample_ns,
                              int64_t target_ns) {
  least_long_ns_ = long_rounds_ == 0 ? sample_ns : std::min(least_long_ns_, sample_ns);
  sum_long_ns_ = long_rounds_ == 0 ? sample_ns : sum_long_ns_ + sample_ns;
  if (++long_rounds_ >= kLongRounds) {
    starting_ = false;
    low_rounds_ = 0;
    const auto average = static_cast<uint32_t>(sum_long_ns_ / long_rounds_);
    if (window_ <= kByLosses && least_long_ns_ <= average / kSpread) with_waits_ns_ = average;
    long_rounds_ = 0;
    if (window_ > kByLosses) return Shrink(settings, least_long_ns_, target_ns);
  }
  if (window_ < kByLosses && was_full_) SetWindow(settings, window_ + Step(settings));
}

void DelayWindow::Grow(const DelaySettings& settings) {
  if (!was_full_) return;
  low_rounds_ = std::min<uint8_t>(low_rounds_ + 1, kLowRounds);
  const uint64_t step = Step(settings);
  if (starting_) return SetWindow(settings, uint64_t{window_} * 2);
  const uint64_t fast = low_rounds_ == kLowRounds ? window_ / kFastGrowth : 0;
  SetWindow(settings, window_ + std::max(step, fast));
  if (window_ >= kWhole) has_lost_ = false;
}

void DelayWindow::Shrink(const DelaySettings& settings, uint32_t delay_ns, int64_t target_ns) {
  const double excess = static_cast<double>(delay_ns - target_ns) / delay_ns;
  const double wanted = std::max(excess, 0.0) * settings.beta / kThousand;
  const double most = static_cast<double>(settings.max_mdf) / kThousand;
  const auto window = static_cast<uint64_t>(window_ * (1 - std::min(wanted, most)));
  SetWindow(settings, tells_waits_ ? window : std::max<uint64_t>(window, kByLosses));
}

void DelayWindow::OnLoss(const DelaySettings& settings) {
  GiveUpSample();
  has_lost_ = true;
  with_waits_ns_ = 0;
  starting_ = false;
  low_rounds_ = 0;
  SetWindow(settings, uint64_t{window_} * (kThousand - settings.max_mdf) / kThousand);
}

uint32_t Window::MostOf(bool selective) const {
  return selective ? std::max(most_, LossWindow::kMostPackets) : most_;
}

void Window::Start(bool selective, uint32_t mtu_bytes) {
  environment_ = next_environment_;
  by_delay_ = environment_ != nullptr && environment_->reacts() &&
              environment_->settings.profile == Profile::kDelay;
  lost_ = 0;
  losses_.Start();
  if (by_delay_) delay_.Start(settings(), MostOf(selective), mtu_bytes, selective);
  packets_ = by_delay_ ? delay_.packets() : losses_.packets();
}

void Window::SetSelective(bool selective) {
  losses_.Start();
  if (by_delay_) delay_.SetPeer(MostOf(selective), selective);
  packets_ = by_delay_ ? delay_.packets() : losses_.packets();
}

void Window::OnAllResent(bool selective) {
  if (by_delay_) return delay_.GiveUpSample();
  if (!selective) return;
  losses_.Start();
  packets_ = losses_.packets();
}

void Window::OnAcknowledgedByDelay(wire::Psn una, Nanos now, Nanos peer_delay) {
  delay_.OnAcknowledged(settings(), una, now - environment_->lag,
                        environment_->stalled + peer_delay);
  packets_ = delay_.packets();
}

void Window::OnGoBack() {
  if (by_delay_) {
    delay_.OnLoss(settings());
    packets_ = delay_.packets();
    return;
  }
  losses_.OnGoBack();
  packets_ = losses_.packets();
}

void Window::OnLost(uint32_t packets) {
  if (!by_delay_) return losses_.OnLost(packets);
  lost_ += packets;
  delay_.GiveUpSample();
}

void Window::OnRound(uint32_t in_flight) {
  if (by_delay_) {
    // Round-trip times show congestion. Single losses do not: a bad cable may cause them.
    const bool much = lost_ * LossWindow::kTolerable > packets_;
    lost_ = 0;
    if (much) delay_.OnLoss(settings());
    packets_ = delay_.packets();
    return;
  }
  losses_.OnRound(in_flight);
  packets_ = losses_.packets();
}

}  // namespace uroce::congestion
