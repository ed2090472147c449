// SPDX-License-Identifier: Apache-2.0
// The timers of a requester, and the round trips by which they go.
#include <gtest/gtest.h>

#include "pipeline/transport/timers.h"

namespace uroce::transport {
namespace {

// When a requester's ACK timer expires (pipeline/transport/timers.h).

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

// What a requester does about RNR NAKs (pipeline/transport/timers.h).

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

// How round trips are measured (pipeline/transport/timers.h).

using wire::Psn;

TEST(RoundTripTest, ARoundLastsFromItsFirstPacketToWhatWasSentInIt) {
  RoundTrip round;
  EXPECT_FALSE(round.End(Nanos(5))) << "nothing was sent";
  EXPECT_FALSE(round.measured());
  round.OnSent(Psn(100), Nanos(10));
  round.OnSent(Psn(101), Nanos(50));  // Of the same round.
  EXPECT_FALSE(round.Covers(Psn(99)));
  EXPECT_TRUE(round.Covers(Psn(100)));
  EXPECT_FALSE(round.CoversBefore(Psn(100)));
  EXPECT_TRUE(round.CoversBefore(Psn(101)));
  EXPECT_TRUE(round.End(Nanos(90)));
  EXPECT_EQ(round.smoothed(), Nanos(80));
  EXPECT_FALSE(round.End(Nanos(95))) << "the next packet begins the next round";
}

TEST(RoundTripTest, ASampleWeighsAnEighth) {
  RoundTrip round;
  round.OnSent(Psn(0), Nanos(0));
  ASSERT_TRUE(round.End(Nanos(800)));
  round.OnSent(Psn(1), Nanos(1000));
  ASSERT_TRUE(round.End(Nanos(2600)));
  EXPECT_EQ(round.smoothed(), Nanos(900));
}

TEST(RoundTripTest, EachRoundIsTakenOnce) {
  RoundTrip round;
  EXPECT_EQ(round.TakeNewest(), Nanos(0));
  round.OnSent(Psn(0), Nanos(100));
  ASSERT_TRUE(round.End(Nanos(800)));
  EXPECT_EQ(round.TakeNewest(), Nanos(700));
  EXPECT_EQ(round.TakeNewest(), Nanos(0));
}

TEST(RoundTripTest, WhatIsSentAgainIsNotMeasured) {
  RoundTrip round;
  round.OnSent(Psn(0xffffff), Nanos(0));
  EXPECT_TRUE(round.Covers(Psn(0))) << "PSNs are circular";
  round.GiveUp();
  EXPECT_FALSE(round.End(Nanos(500)));
  EXPECT_FALSE(round.measured());
}

TEST(RoundTripTest, ResetForgetsWhatWasMeasured) {
  RoundTrip round;
  round.OnSent(Psn(0), Nanos(0));
  ASSERT_TRUE(round.End(Nanos(800)));
  round.Reset();
  EXPECT_FALSE(round.measured());
}

// When a requester sends tail loss probes (pipeline/transport/timers.h).

constexpr Nanos kUs{1'000};

/// When `probe` is due, looked at whenever its timer asks for it.
Nanos DueAt(TailLossProbe& probe) {
  for (;;) {
    const Nanos now = probe.deadline();
    EXPECT_FALSE(probe.Expire(now - Nanos(1)));
    if (probe.Expire(now)) return now;
  }
}

// [sr.probe]
TEST(TailLossProbeTest, WaitsForThreeRoundTripsAndAtLeastATenthOfAMillisecond) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  EXPECT_EQ(DueAt(probe), kUs * 100);
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 50, kNever);
  EXPECT_EQ(DueAt(probe), kUs * 150);
}

// [sr.probe]
TEST(TailLossProbeTest, AnOwnerThatStoodStillHasMoreLooksBeforeItIsDue) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  Nanos now = kUs * 1'000'000;
  for (int look = 0; look < 3; ++look, now = probe.deadline()) {
    EXPECT_FALSE(probe.Expire(now));
    EXPECT_EQ(probe.deadline(), now + kUs * 25);
  }
  EXPECT_TRUE(probe.Expire(now));
  EXPECT_EQ(now, kUs * 1'000'075);
}

// [sr.probe]
TEST(TailLossProbeTest, EachOneWithoutAnAnswerDoublesTheWait) {
  TailLossProbe probe;
  for (const int factor : {1, 2, 4}) {
    probe.Start(Nanos(0), kUs * 10, kNever);
    EXPECT_EQ(DueAt(probe), kUs * 100 * factor);
    EXPECT_EQ(probe.deadline(), kNever);
  }
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 10, kNever);
  EXPECT_EQ(DueAt(probe), kUs * 100);
}

// [sr.probe]
TEST(TailLossProbeTest, LeavesTheRestToTheAckTimeout) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 50, kUs * 150);
  EXPECT_EQ(probe.deadline(), kNever);
  probe.Start(Nanos(0), kUs * 50, kUs * 151);
  EXPECT_EQ(DueAt(probe), kUs * 150);
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 64'000, kNever);
  EXPECT_EQ(probe.deadline(), kNever) << "beyond the longest wait, without an ACK timeout too";
}

}  // namespace
}  // namespace uroce::transport
