// SPDX-License-Identifier: Apache-2.0
// When a requester sends tail loss probes (pipeline/transport/tail_loss_probe.h).
#include "pipeline/transport/tail_loss_probe.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

constexpr Nanos kUs{1'000};

// [sr.probe]
TEST(TailLossProbeTest, WaitsForThreeRoundTripsAndAtLeastATenthOfAMillisecond) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  EXPECT_EQ(probe.deadline(), kUs * 100);
  probe.Start(Nanos(0), kUs * 50, kNever);
  EXPECT_EQ(probe.deadline(), kUs * 150);
}

// [sr.probe]
TEST(TailLossProbeTest, EachOneWithoutAnAnswerDoublesTheWait) {
  TailLossProbe probe;
  for (const int factor : {1, 2, 4}) {
    probe.Start(Nanos(0), kUs * 10, kNever);
    EXPECT_EQ(probe.deadline(), kUs * 100 * factor);
    EXPECT_FALSE(probe.Expire(probe.deadline() - Nanos(1)));
    EXPECT_TRUE(probe.Expire(probe.deadline()));
    EXPECT_EQ(probe.deadline(), kNever);
  }
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 10, kNever);
  EXPECT_EQ(probe.deadline(), kUs * 100);
}

// [sr.probe]
TEST(TailLossProbeTest, LeavesTheRestToTheAckTimeout) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 50, kUs * 150);
  EXPECT_EQ(probe.deadline(), kNever);
  probe.Start(Nanos(0), kUs * 50, kUs * 151);
  EXPECT_EQ(probe.deadline(), kUs * 150);
  probe.Start(Nanos(0), kUs * 64'000, kNever);
  EXPECT_EQ(probe.deadline(), kNever) << "beyond the longest wait, without an ACK timeout too";
}

}  // namespace
}  // namespace uroce::transport
