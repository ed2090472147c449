// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "tests/os/busy_cpu.h"

namespace uroce {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kTicksPerSecond = 3'000'000'000;

/// A counter whose rate the test changes, and the true time.
class CounterTimeTest : public testing::Test {
 protected:
  using Reading = CounterTime::Reading;

  Reading True() const { return {ticks_, Nanos(now_ns_)}; }
  /// Lets time pass, while the counter is `ppm` fast.
  void Pass(int64_t ns, int64_t ppm) {
    now_ns_ += ns;
    const int64_t ticks = ns / 1000 * (kTicksPerSecond / 1'000'000);
    ticks_ += static_cast<uint64_t>(ticks + ticks / 1'000'000 * ppm);
  }
  int64_t ErrorNs() const { return (time_.At(ticks_) - Nanos(now_ns_)).count(); }
  /// Passes `seconds` in steps of a millisecond, and corrects after each second. Returns the
  /// largest error. The time goes on in each step.
  int64_t Run(int seconds, int64_t ppm) {
    int64_t worst_ns = 0;
    for (int i = 1; i <= seconds * 1000; ++i) {
      const Nanos before = time_.At(ticks_);
      Pass(kSecondNs / 1000, ppm);
      if (i % 1000 == 0) time_.Correct(True());
      EXPECT_GT(time_.At(ticks_), before) << "at " << i << " ms";
      worst_ns = std::max(worst_ns, std::abs(ErrorNs()));
    }
    return worst_ns;
  }

  uint64_t ticks_ = 123'456'789;
  int64_t now_ns_ = 55 * kSecondNs;
  CounterTime time_ = [this] {
    const Reading first = True();
    Pass(kSecondNs / 100, 0);
    return CounterTime(first, True());
  }();
};

TEST_F(CounterTimeTest, FollowsACounterThatDriftsWithoutAStepBack) {
  Run(2, 1500);
  EXPECT_LT(Run(10, 1500), 10'000) << "the rate is known after an interval";
  Run(2, -1900);
  EXPECT_LT(Run(10, -1900), 10'000);
}

TEST_F(CounterTimeTest, AnErrorIsMadeUpForInASecondAndNoLonger) {
  Pass(kSecondNs, 1000);
  time_.Correct(True());
  EXPECT_NEAR(static_cast<double>(ErrorNs()), 1e6, 1e4) << "it is ahead, and does not step back";
  Pass(kSecondNs, 1000);
  EXPECT_LT(std::abs(ErrorNs()), 10'000);
  Pass(60 * kSecondNs, 1000);
  EXPECT_LT(std::abs(ErrorNs()), 100'000) << "no correction came for a minute";
}

TEST_F(CounterTimeTest, WhatIsFarBehindIsSetAtOnce) {
  now_ns_ += 3600 * kSecondNs;  // The counter stood still while the machine was suspended.
  Pass(1'000'000, 0);
  time_.Correct(True());
  EXPECT_LT(std::abs(ErrorNs()), 1000);
}

TEST_F(CounterTimeTest, WhatIsFarAheadGoesOnAtHalfTheRate) {
  ticks_ += 3600 * uint64_t{kTicksPerSecond};  // The other clock stood still.
  Pass(1'000'000, 0);
  time_.Correct(True());
  const Nanos before = time_.At(ticks_);
  ticks_ += 1'000'000;
  EXPECT_GT(time_.At(ticks_), before);
}

TEST_F(CounterTimeTest, ReadingsThatAreNotLaterChangeNothing) {
  Pass(kSecondNs, 100);
  time_.Correct(True());
  const Nanos expected = time_.At(ticks_ + 1000);
  time_.Correct(True());
  time_.Correct({ticks_ + 10, Nanos(now_ns_ - 10)});
  time_.Correct({ticks_ - 10, Nanos(now_ns_ + 10)});
  EXPECT_EQ(time_.At(ticks_ + 1000), expected);
}

TEST_F(CounterTimeTest, TicksBeforeTheLastReadingAreJustBefore) {
  Pass(kSecondNs, 0);
  time_.Correct(True());
  EXPECT_NEAR(static_cast<double>((time_.At(ticks_) - time_.At(ticks_ - 300)).count()), 100, 5);
}

TEST_F(CounterTimeTest, SpansAndTicksAreOneAnotherAtTheRateOfTheCounter) {
  EXPECT_NEAR(static_cast<double>(time_.SpanOf(kTicksPerSecond).count()), kSecondNs, 10);
  EXPECT_NEAR(static_cast<double>(time_.TicksIn(Nanos(1'000'000))), kTicksPerSecond / 1000, 1);
  EXPECT_EQ(time_.SpanOf(0), Nanos(0));
  EXPECT_EQ(time_.TicksIn(Nanos(0)), 0u);
}

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
TEST(ClockTest, TicksMeasureTheSpansOfTheClock) {
  const Clock clock;
  const int64_t before_ns = clock.Now().count();
  const uint64_t begin = clock.Ticks();
  while (clock.Ticks() - begin < clock.TicksIn(Nanos(2'000'000))) {
  }
  const int64_t span_ns = clock.SpanOf(clock.Ticks() - begin).count();
  EXPECT_GE(span_ns, 1'999'000);
  EXPECT_LE(span_ns, clock.Now().count() - before_ns + 1'000);
}

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

TEST(RunDelayTest, BeforeOpenThereIsNone) { EXPECT_EQ(RunDelay().Read(), Nanos(0)); }

// Ends when the kernel has counted a wait. Without one it hangs.
TEST(RunDelayTest, CountsTheWaitForACpuThatAnotherThreadHas) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/thread-self/schedstat (CONFIG_SCHED_INFO)";
  }
  const BesideABusyThread waiting([] {
    RunDelay delay;
    delay.Open();
    const Nanos before = delay.Read();
    while (delay.Read() <= before) continue;
  });
}

}  // namespace
}  // namespace uroce
