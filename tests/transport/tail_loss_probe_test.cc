// SPDX-License-Identifier: Apache-2.0
// When a requester sends tail loss probes (pipeline/transport/timers.h).
#include "pipeline/transport/timers.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

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
