// SPDX-License-Identifier: Apache-2.0
// Codes of time, and the limit of requests.
#include "nic/cm/connect_request.h"

#include <gtest/gtest.h>

#include "pipeline/base/limits.h"

namespace uroce::nic::cm {
namespace {

// [cm.time.codes]
TEST(TimeoutsTest, ACodeIsAPowerOfTwoInMilliseconds) {
  EXPECT_EQ(TimeOf(0), Nanos(1'000'000));
  EXPECT_EQ(TimeOf(8), Nanos(1'000'000));
  EXPECT_EQ(TimeOf(9), Nanos(2'000'000));
  EXPECT_EQ(TimeOf(20), Nanos(4'096'000'000));
  EXPECT_EQ(TimeOf(31), Nanos(8'388'608'000'000));
  EXPECT_EQ(BoundedTimeOf(31, 22), TimeOf(22));
  EXPECT_EQ(BoundedTimeOf(3, 22), TimeOf(3));
}

// [cm.time.ack]
TEST(TimeoutsTest, AnAckTimeoutHoldsTheDelayAndTwoLifeTimes) {
  EXPECT_EQ(AckTimeout(15, 18), 19);
  EXPECT_EQ(AckTimeout(15, 16), 17);
  EXPECT_EQ(AckTimeout(18, 18), 20);
  EXPECT_EQ(AckTimeout(19, 18), 20);
  EXPECT_EQ(AckTimeout(20, 18), 21);
  EXPECT_EQ(AckTimeout(21, 18), 21);
  EXPECT_EQ(AckTimeout(0, 0), 2);
  EXPECT_EQ(AckTimeout(31, 31), 31);
}

// [cm.flood.rate]
TEST(TokenBucketTest, ABurstAndThenTheRate) {
  TokenBucket limit(1000, 3);
  const Nanos start(5'000'000'000);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Take(start));
  EXPECT_FALSE(limit.Take(start));
  EXPECT_FALSE(limit.Take(start + Nanos(999'999)));
  EXPECT_TRUE(limit.Take(start + Nanos(1'000'000)));
  EXPECT_FALSE(limit.Take(start + Nanos(1'000'000)));
  // A pause saves up a burst, and no more.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Take(start + Nanos(60'000'000'000)));
  EXPECT_FALSE(limit.Take(start + Nanos(60'000'000'000)));
}

}  // namespace
}  // namespace uroce::nic::cm
