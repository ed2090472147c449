// SPDX-License-Identifier: Apache-2.0
// When a requester goes back, and at what cost (pipeline/transport/loss_recovery.h).
#include "pipeline/transport/loss_recovery.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

using Decision = GoBackN::Decision;

GoBackN WithRetries(uint8_t count) {
  GoBackN go_back;
  go_back.Configure(count);
  return go_back;
}

Decision OnNak(GoBackN& go_back, bool timed_out = false) {
  return go_back.OnLoss(ResendCause::kSequenceNak, false, timed_out);
}

// [3.3.retries]
TEST(GoBackNTest, ARetryIsSpentByEachTimeout) {
  GoBackN go_back = WithRetries(2);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().cause, ResendCause::kAckTimeout);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().number, 2);
  EXPECT_EQ(go_back.resend().limit, 2);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kExhausted);
}

// [3.3.progress]
TEST(GoBackNTest, ProgressRefillsTheRetries) {
  GoBackN go_back = WithRetries(1);
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
  go_back.OnProgress();
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().number, 1);
}

TEST(GoBackNTest, OneEventGoesBackOnce) {
  GoBackN go_back = WithRetries(7);
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
  EXPECT_EQ(OnNak(go_back), Decision::kStay);
  EXPECT_FALSE(go_back.OnFreeLoss(ResendCause::kSequenceNak));
  go_back.ForgetEvent();
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
}

TEST(GoBackNTest, WhatIsToBeSentAgainAnywayIsNotLostOnceMore) {
  GoBackN go_back = WithRetries(7);
  EXPECT_EQ(go_back.OnLoss(ResendCause::kSequenceNak, true, false), Decision::kStay);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
}

// [3.3.retries.once] What costs no retry says so: its number is 0.
TEST(GoBackNTest, ANakBehindATimeoutCostsNoRetry) {
  GoBackN go_back = WithRetries(1);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
  EXPECT_EQ(OnNak(go_back, true), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().cause, ResendCause::kSequenceNak);
  EXPECT_EQ(go_back.resend().number, 0);
  EXPECT_EQ(OnNak(go_back, true), Decision::kStay);
}

TEST(GoBackNTest, AFreeLossCostsNoRetry) {
  GoBackN go_back = WithRetries(0);
  EXPECT_TRUE(go_back.OnFreeLoss(ResendCause::kSequenceNak));
  EXPECT_EQ(go_back.resend().number, 0);
}

}  // namespace
}  // namespace uroce::transport
