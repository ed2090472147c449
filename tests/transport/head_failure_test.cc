// SPDX-License-Identifier: Apache-2.0
// How a send queue fails (pipeline/transport/send_queue.h).
#include "pipeline/transport/send_queue.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(HeadFailureTest, AnUnfitWorkWaitsForItsTurn) {
  HeadFailure failure;
  EXPECT_FALSE(failure.IsPendingAt(0));
  failure.FailAtHead(5, WcStatus::kLocLenErr);
  EXPECT_FALSE(failure.IsPendingAt(4));
  EXPECT_TRUE(failure.IsPendingAt(5));
  EXPECT_EQ(failure.pending_status(), WcStatus::kLocLenErr);
  EXPECT_FALSE(failure.failed());
}

TEST(HeadFailureTest, TheFailedWorkCompletesWithItsOwnStatusAndAllOthersFlushed) {
  HeadFailure failure;
  failure.Fail({.side = Failure::Side::kRequester, .status = WcStatus::kRetryExcErr});
  EXPECT_TRUE(failure.failed());
  EXPECT_EQ(failure.failure().status, WcStatus::kRetryExcErr);
  EXPECT_EQ(failure.TakeStatus(), WcStatus::kRetryExcErr);
  EXPECT_EQ(failure.TakeStatus(), WcStatus::kWrFlushErr);
}

TEST(HeadFailureTest, ResetForgetsWhatWasToFail) {
  HeadFailure failure;
  failure.FailAtHead(0, WcStatus::kLocLenErr);
  failure.Fail({.status = WcStatus::kLocLenErr});
  failure.Reset();
  EXPECT_FALSE(failure.failed());
  EXPECT_FALSE(failure.IsPendingAt(0));
  EXPECT_EQ(failure.TakeStatus(), WcStatus::kWrFlushErr);
}

}  // namespace
}  // namespace uroce::transport
