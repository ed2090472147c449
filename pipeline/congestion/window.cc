// SPDX-License-Identifier: Apache-2.0
// The window of request packets that a requester may have in flight, for every profile: controlled
// by round-trip times (Swift, SIGCOMM 2020) or by losses alone.
#include "pipeline/congestion/window.h"

#include <algorithm>
#include <cmath>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
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

/// A round-trip time in ns: not 0, and less than the initial base delay.
uint32_t InRange(Nanos sample) {
  return static_cast<uint32_t>(std::clamp<int64_t>(sample.count(), 1, UINT32_MAX - 1));
}

}  // namespace

void DelayWindow::Start(const DelaySettings& settings, uint32_t most, uint32_t mtu_bytes) {
  *this = {};
  most_ = most;
  const uint64_t initial = uint64_t{settings.initial_cwnd} * kKilobyte / mtu_bytes;
  SetWindow(settings, std::max<uint64_t>(initial, 1) * kOne);
}

void DelayWindow::SetMost(uint32_t most) {
  most_ = most;
  window_ = std::min(window_, most * kOne);
}

void DelayWindow::SetWindow(const DelaySettings& settings, uint64_t window) {
  const uint64_t in_parts = std::max<uint64_t>(uint64_t{settings.min_cwnd} * kOne / kThousand, 1);
  const uint64_t least = has_lost_ ? in_parts : std::max<uint64_t>(in_parts, kOne);
  const uint64_t most = uint64_t{most_} * kOne;
  window_ = static_cast<uint32_t>(std::clamp(window, std::min(least, most), most));
}

int64_t DelayWindow::OfPath(const DelaySettings& settings) const {
  const int64_t base = Base() == UINT32_MAX ? 0 : Base();
  return base + base * settings.path_scaling / 100;
}

Nanos DelayWindow::Target(const DelaySettings& settings) const {
  const int64_t of_fabric = Micros(settings.base_target_delay).count();
  const double scaling = FlowScaling(settings, static_cast<double>(window_) / kOne);
  return Nanos(std::max(OfPath(settings), of_fabric) + static_cast<int64_t>(scaling));
}

void DelayWindow::NoteBase(uint32_t sample_ns, Nanos now) {
  if (now - base_began_ >= kBaseAge) {
    old_base_ns_ = base_ns_;
    base_ns_ = UINT32_MAX;
    base_began_ = now;
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
    Grow(settings);
  } else {
    starting_ = false;
    low_rounds_ = 0;
    Shrink(settings, std::max(shorter, 1u), target);
  }
  was_full_ = false;
}

void DelayWindow::Grow(const DelaySettings& settings) {
  if (!was_full_) return;
  low_rounds_ = std::min<uint8_t>(low_rounds_ + 1, kLowRounds);
  const uint64_t step = uint64_t{settings.ai} * kOne / kThousand;
  if (starting_) return SetWindow(settings, uint64_t{window_} * 2);
  const uint64_t fast = low_rounds_ == kLowRounds ? window_ / kFastGrowth : 0;
  SetWindow(settings, window_ + std::max(step, fast));
  if (window_ >= kWhole) has_lost_ = false;
}

void DelayWindow::Shrink(const DelaySettings& settings, uint32_t delay_ns, int64_t target_ns) {
  const double excess = static_cast<double>(delay_ns - target_ns) / delay_ns;
  const double wanted = std::max(excess, 0.0) * settings.beta / kThousand;
  const double most = static_cast<double>(settings.max_mdf) / kThousand;
  SetWindow(settings, static_cast<uint64_t>(window_ * (1 - std::min(wanted, most))));
}

void DelayWindow::OnLoss(const DelaySettings& settings) {
  GiveUpSample();
  has_lost_ = true;
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
  if (by_delay_) delay_.Start(settings(), MostOf(selective), mtu_bytes);
  packets_ = by_delay_ ? delay_.packets() : losses_.packets();
}

void Window::SetSelective(bool selective) {
  losses_.Start();
  if (by_delay_) delay_.SetMost(MostOf(selective));
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
