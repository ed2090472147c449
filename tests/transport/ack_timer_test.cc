// SPDX-License-Identifier: Apache-2.0
// When a requester's ACK timer expires (pipeline/transport/timers.h).
#include "pipeline/transport/timers.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

constexpr Nanos kTimeout{67'108'864};  // Code 14.

AckTimer Timer() {
  AckTimer timer;
  timer.Configure(14);
  return timer;
}

// [3.3.timeout]
TEST(AckTimerTest, ExpiresOnceAtItsDeadline) {
  AckTimer timer = Timer();
  timer.Start(Nanos(100), Nanos(0));
  EXPECT_EQ(timer.deadline(), kTimeout + Nanos(100));
  EXPECT_FALSE(timer.Expire(timer.deadline() - Nanos(1)));
  EXPECT_FALSE(timer.timed_out());
  EXPECT_TRUE(timer.Expire(timer.deadline()));
  EXPECT_FALSE(timer.running());
  EXPECT_TRUE(timer.timed_out());
}

// [3.3.timeout]
TEST(AckTimerTest, CodeZeroNeverRuns) {
  AckTimer timer;
  timer.Configure(0);
  timer.Start(Nanos(100), Nanos(1'000'000));
  EXPECT_FALSE(timer.running());
}

// [3.3.back-off]
TEST(AckTimerTest, TimeoutsInARowDoubleUpToFourTimes) {
  AckTimer timer = Timer();
  for (const int factor : {1, 2, 4, 4}) {
    timer.Start(Nanos(0), Nanos(0));
    EXPECT_EQ(timer.deadline(), kTimeout * factor);
    EXPECT_TRUE(timer.Expire(timer.deadline()));
  }
  timer.ForgetTimeouts();
  timer.Start(Nanos(0), Nanos(0));
  EXPECT_EQ(timer.deadline(), kTimeout);
}

// [3.3.adaptive]
TEST(AckTimerTest, WaitsForThreeRoundTripsWithinTheSameBounds) {
  AckTimer timer = Timer();
  timer.Start(Nanos(0), Nanos(1'000));
  EXPECT_EQ(timer.deadline(), kTimeout);
  timer.Start(Nanos(0), kTimeout);
  EXPECT_EQ(timer.deadline(), kTimeout * 3);
  timer.Start(Nanos(0), kTimeout * 2);
  EXPECT_EQ(timer.deadline(), kTimeout * 4);
}

}  // namespace
}  // namespace uroce::transport
