// SPDX-License-Identifier: Apache-2.0
// How round trips are measured (pipeline/transport/timers.h).
#include "pipeline/transport/timers.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

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

}  // namespace
}  // namespace uroce::transport
