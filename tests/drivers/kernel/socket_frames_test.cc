// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/socket_frames.h"

#include <gtest/gtest.h>

namespace uroce::drivers {
namespace {

constexpr Nanos kBegin{5'000};

TEST(TransmitGateTest, AFullKernelIsTriedAgainLater) {
  TransmitGate gate;
  EXPECT_TRUE(gate.is_open());
  EXPECT_FALSE(gate.GivesUp(true, true, kBegin));
  EXPECT_FALSE(gate.is_open());
  EXPECT_EQ(gate.opens_at(), kBegin + TransmitGate::kTryAgain);
  gate.Advance(gate.opens_at() - Nanos(1));
  EXPECT_FALSE(gate.is_open());
  gate.Advance(gate.opens_at());
  EXPECT_TRUE(gate.is_open());
  EXPECT_EQ(gate.opens_at(), kNever);
}

TEST(TransmitGateTest, WhatTakesAllLeavesItOpen) {
  TransmitGate gate;
  EXPECT_FALSE(gate.GivesUp(true, false, kBegin));
  EXPECT_TRUE(gate.is_open());
}

TEST(TransmitGateTest, RefusalsForLongEndInDrops) {
  TransmitGate gate;
  EXPECT_FALSE(gate.GivesUp(false, true, kBegin));
  const Nanos end = kBegin + TransmitGate::kRefusalLimit;
  EXPECT_FALSE(gate.GivesUp(false, true, end - Nanos(1)));
  gate.Advance(end + TransmitGate::kTryAgain);
  EXPECT_TRUE(gate.GivesUp(false, true, end));
  EXPECT_TRUE(gate.is_open()) << "What comes behind is dropped, too, until the kernel takes some.";
}

TEST(TransmitGateTest, AFrameThatIsTakenEndsTheRefusals) {
  TransmitGate gate;
  EXPECT_FALSE(gate.GivesUp(false, true, kBegin));
  const Nanos end = kBegin + TransmitGate::kRefusalLimit;
  EXPECT_FALSE(gate.GivesUp(true, true, end));
  EXPECT_FALSE(gate.GivesUp(false, true, end + TransmitGate::kRefusalLimit - Nanos(1)));
  EXPECT_FALSE(gate.GivesUp(false, false, end + TransmitGate::kRefusalLimit)) << "or dropped by it";
  EXPECT_FALSE(gate.GivesUp(false, true, end + TransmitGate::kRefusalLimit));
}

}  // namespace
}  // namespace uroce::drivers
