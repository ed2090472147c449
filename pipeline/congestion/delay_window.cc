// SPDX-License-Identifier: Apache-2.0
#include "pipeline/congestion/delay_window.h"

#include <cmath>
#include <cstdlib>

#include "pipeline/congestion/units.h"

namespace uroce::congestion {
namespace {

double Env(const char* n, double d) { const char* v = getenv(n); return v ? atof(v) : d; }
const auto kLong = int64_t(Env("LONG", 0));
const double kM = Env("M", 0.3), kProp = Env("PROP", 0.5), kNorm = Env("NORM", 0), kSmall = Env("SMALL", 0), kFilterOn = Env("FILTER", 1), kUp = Env("UP", 1);
constexpr uint32_t kThousand = 1000;
constexpr uint32_t kKilobyte = 1024;

/// The time that a small window adds to its target: fs_range at fs_min_cwnd, nothing from
/// fs_max_cwnd on, and between them as 1 / sqrt(window) (Swift, section 3.5).
double FlowScaling(const DelaySettings& settings, double window) {
  const double most = static_cast<double>(settings.fs_max_cwnd);
  const double least = settings.fs_min_cwnd / static_cast<double>(kThousand);
  if (most <= least) return 0;
  static const double kPow = Env("POW", 0.5);
  const double share = kPow == 0 ? std::log(most / window) / std::log(most / least)
                          : (std::pow(window, -kPow) - std::pow(most, -kPow)) / (std::pow(least, -kPow) - std::pow(most, -kPow));
  return std::clamp(share, 0.0, 1.0) * static_cast<double>(Micros(settings.fs_range).count());
}

/// A round-trip time in ns: not 0, and less than the initial base delay.
uint32_t InRange(Nanos sample) {
  return static_cast<uint32_t>(std::clamp<int64_t>(sample.count(), 1, UINT32_MAX - 1));
}

}  // namespace

const int DelayWindow::dither_ = int(Env("DITHER", 256));
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
  const uint64_t least = std::max<uint64_t>(uint64_t{settings.min_cwnd} * kOne / kThousand, 1);
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
  const int64_t path = OfPath(settings);
  if (path > of_fabric + Micros(settings.fs_range).count()) return Nanos(path + static_cast<int64_t>(scaling));
  return Nanos(std::max(path, of_fabric + static_cast<int64_t>(scaling)));
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
  const bool is_long = OfPath(settings) > Micros(settings.base_target_delay + settings.fs_range).count();
  const Nanos due = Nanos(Base()) * (kLookAfter << look_doublings_);
  if (!is_long || now - looked_ < due) return false;
  looked_ = now;
  look_base_ns_ = Base();
  kept_window_ = window_;
  look_samples_ = kLookSamples;
  static const double lw = Env("LW", 64), lm = Env("LM", 0.0625); SetWindow(settings, std::llround(std::max(window_ / lw, std::min<double>(window_, kOne * lm))));
  SetPace(settings);
  return true;
}

void DelayWindow::EndLook(const DelaySettings& settings) {
  SetWindow(settings, kept_window_);
  SetPace(settings);
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
  if (sample > target && merged > kMostMerged) return;
  const uint32_t shorter = kFilterOn > 0 ? std::min(sample, delay_ns_ == 0 ? sample : delay_ns_) : sample;
  delay_ns_ = sample;
  const double t0 = static_cast<double>(target);
  const double small = kSmall > 0 ? std::min(1.0, std::pow(double(window_) / kOne, kSmall)) : 1.0;
  if (sample <= target) {
    if (was_full_) {
      if (starting_) SetWindow(settings, uint64_t{window_} * 2);
      else SetWindow(settings, std::llround(window_ * std::exp(kM * kUp * small * (t0 - sample) / t0)) + 1);
    }
  } else {
    starting_ = false;
    const double x = (double(shorter) - t0) / t0;
    if (x > 0) SetWindow(settings, std::llround(window_ * std::max(std::exp(-kM * small * x), 1 - settings.max_mdf / 1000.0)));
  }
  mix_ = (mix_ + sample) * 0x9e3779b1;
  SetPace(settings);
  was_full_ = false;
}
void DelayWindow::SetPace(const DelaySettings& settings) {
  const double small = std::min(1.0, static_cast<double>(window_) / kOne);
  const double t = static_cast<double>(Target(settings).count());
  const double d = std::min(static_cast<double>(delay_ns_), 4 * t);
  pace_ns_ = static_cast<uint32_t>(t + (d - t) * small * kProp);
}

void DelayWindow::OnLoss(const DelaySettings& settings) {
  GiveUpSample();
  starting_ = false;
  SetWindow(settings, uint64_t{window_} * (kThousand - settings.max_mdf) / kThousand);
}

}  // namespace uroce::congestion
