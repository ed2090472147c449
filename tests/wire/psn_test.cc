// SPDX-License-Identifier: Apache-2.0
// Circular arithmetic of packet sequence numbers.
#include "pipeline/wire/psn.h"

#include <gtest/gtest.h>

namespace uroce::wire {
namespace {

TEST(PsnTest, KeepsTwentyFourBits) { EXPECT_EQ(Psn(0x12345678).value(), 0x345678u); }

TEST(PsnTest, AddsAndSubtractsAcrossTheWrap) {
  EXPECT_EQ(Psn(0xffffff) + 1, Psn(0));
  EXPECT_EQ(Psn(0xfffffe) + 5, Psn(3));
  EXPECT_EQ(Psn(0) - 1, Psn(0xffffff));
  EXPECT_EQ(Psn(2) - 5, Psn(0xfffffd));
}

TEST(PsnTest, DistanceIsSignedAcrossTheWrap) {
  EXPECT_EQ(Psn(2).Since(Psn(0xfffffe)), 4);
  EXPECT_EQ(Psn(0xfffffe).Since(Psn(2)), -4);
  EXPECT_EQ(Psn(7).Since(Psn(7)), 0);
}

TEST(PsnTest, HalfTheSpaceIsTheFutureAndHalfThePast) {
  EXPECT_EQ(Psn(0x7fffff).Since(Psn(0)), 0x7fffff);
  EXPECT_EQ(Psn(0x800000).Since(Psn(0)), -0x800000);
  EXPECT_EQ(Psn(0x7ffffe).Since(Psn(0xffffff)), 0x7fffff);
  EXPECT_EQ(Psn(0x7fffff).Since(Psn(0xffffff)), -0x800000);
}

}  // namespace
}  // namespace uroce::wire
