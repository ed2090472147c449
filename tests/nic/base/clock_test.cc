// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/clock.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace uroce {
namespace {

int64_t SystemNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

struct Reading {
  int64_t system_ns;
  int64_t clock_ns;
};

/// Both clocks at one moment: readings between which the thread lost its CPU are taken again. A
/// moment becomes longer with each reading, for machines whose clocks are slow to read.
Reading ReadBoth(const Clock& clock) {
  for (int64_t moment_ns = 5'000;; ++moment_ns) {
    const int64_t before_ns = SystemNs();
    const int64_t clock_ns = clock.Now().count();
    if (SystemNs() - before_ns <= moment_ns) return {before_ns, clock_ns};
  }
}

// Pacing, timeouts and round trips of the first second rest on the first calibration.
TEST(ClockTest, ItsRateIsThatOfTheSystemFromTheFirstReadingOn) {
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 50'000'000};
  for (int i = 0; i < 10; ++i) {
    const Clock clock;
    const Reading begin = ReadBoth(clock);
    nanosleep(&kPause, nullptr);
    const Reading end = ReadBoth(clock);
    const int64_t elapsed_ns = end.system_ns - begin.system_ns;
    const int64_t shown_ns = end.clock_ns - begin.clock_ns;
    EXPECT_LE(std::abs(shown_ns - elapsed_ns) * 1'000, elapsed_ns) << shown_ns << " ns shown";
  }
}

}  // namespace
}  // namespace uroce
