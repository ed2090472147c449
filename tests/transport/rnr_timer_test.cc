// SPDX-License-Identifier: Apache-2.0
// What a requester does about RNR NAKs (pipeline/transport/timers.h).
#include "pipeline/transport/timers.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

using wire::Psn;

// [3.3.rnr-retries]
TEST(RnrTimerTest, HasAsManyRetriesAsTheAttributeSays) {
  RnrTimer timer;
  timer.Configure(2);
  EXPECT_TRUE(timer.TakeRetry());
  EXPECT_EQ(timer.resend().number, 1);
  EXPECT_EQ(timer.resend().limit, 2);
  EXPECT_TRUE(timer.TakeRetry());
  EXPECT_FALSE(timer.TakeRetry());
  timer.OnProgress(Psn(1));
  EXPECT_TRUE(timer.TakeRetry());
}

// [3.3.rnr-retries]
TEST(RnrTimerTest, SevenIsForEver) {
  RnrTimer timer;
  timer.Configure(7);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(timer.TakeRetry());
  EXPECT_EQ(timer.resend().cause, ResendCause::kRnrNak);
  EXPECT_EQ(timer.resend().limit, Resend::kForEver);
}

TEST(RnrTimerTest, WaitsUntilItsDeadline) {
  RnrTimer timer;
  EXPECT_FALSE(timer.Expire(Nanos(1'000'000)));
  timer.Start(Psn(100), Nanos(500));
  EXPECT_TRUE(timer.waiting());
  EXPECT_FALSE(timer.Expire(Nanos(499)));
  EXPECT_TRUE(timer.Expire(Nanos(500)));
  EXPECT_FALSE(timer.waiting());
}

TEST(RnrTimerTest, TheSameNakAgainSaysNothingNew) {
  RnrTimer timer;
  EXPECT_FALSE(timer.IsKnown(Psn(100)));
  timer.Start(Psn(100), Nanos(500));
  EXPECT_TRUE(timer.IsKnown(Psn(99)));
  EXPECT_TRUE(timer.IsKnown(Psn(100)));
  EXPECT_FALSE(timer.IsKnown(Psn(101)));
}

TEST(RnrTimerTest, ProgressBehindTheRefusedPacketEndsTheWait) {
  RnrTimer timer;
  timer.Start(Psn(100), Nanos(500));
  timer.OnProgress(Psn(100));
  EXPECT_TRUE(timer.waiting()) << "what is in front of it tells nothing";
  timer.OnProgress(Psn(101));
  EXPECT_FALSE(timer.waiting());
}

}  // namespace
}  // namespace uroce::transport
