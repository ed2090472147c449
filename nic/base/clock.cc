// SPDX-License-Identifier: Apache-2.0
// Calibration of the time stamp counter.
#include "nic/base/clock.h"

#include <cpuid.h>

namespace uroce {
namespace {

constexpr timespec kCalibration{.tv_sec = 0, .tv_nsec = 10'000'000};

// CPUID 0x80000007, EDX bit 8: the counter's rate is the same in all power states.
bool HasInvariantCounter() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
}

}  // namespace

Clock::Clock() : base_(SystemNow(CLOCK_MONOTONIC)) {
  if (HasInvariantCounter()) {
    base_ticks_ = __rdtsc();
    nanosleep(&kCalibration, nullptr);
    const uint64_t ticks = __rdtsc() - base_ticks_;
    const Nanos passed = SystemNow(CLOCK_MONOTONIC) - base_;
    ns_per_tick_shifted_ =
        static_cast<uint64_t>((static_cast<Wide>(passed.count()) << kShift) / ticks);
  }
  ReadWall(Now());
}

Nanos Clock::SystemNow(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Nanos(time.tv_sec * 1'000'000'000 + time.tv_nsec);
}

void Clock::ReadWall(Nanos now) {
  wall_read_ = now;
  wall_offset_ = SystemNow(CLOCK_REALTIME) - now;
}

}  // namespace uroce
