// SPDX-License-Identifier: Apache-2.0
// Numbers of queue pairs, and where queue pairs live.
#include "nic/objects/numbers.h"

#include <gtest/gtest.h>

#include "pipeline/base/types.h"

namespace uroce::nic {
namespace {

constexpr Nanos kNow(1000);

TEST(QueuePairNumbersTest, ANewQueuePairGoesWhereFewestLive) {
  QueuePairNumbers numbers(3);
  for (const uint32_t worker : {0u, 0u, 1u, 2u, 2u}) ASSERT_NE(numbers.Take(worker, kNow), 0u);
  EXPECT_EQ(numbers.WorkerFor(std::nullopt), 1u);
  EXPECT_EQ(numbers.WorkerFor(2), 2u) << "what it uses is bound to a worker";
  EXPECT_EQ(numbers.WorkerFor(0), 0u) << "worker 0 too";
}

TEST(QueuePairNumbersTest, ANumberSaysWhichWorkerOwnsIt) {
  QueuePairNumbers numbers(3);
  for (uint32_t worker = 0; worker < 3; ++worker) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(OwnerOf(Qpn(numbers.Take(worker, kNow)), 3), worker);
    }
    EXPECT_EQ(numbers.count_on(worker), 100u);
  }
  EXPECT_EQ(numbers.held(), 300u);
}

TEST(QueuePairNumbersTest, AQueuePairThatLeavesIsCountedWhereItLived) {
  QueuePairNumbers numbers(2);
  const Qpn first(numbers.Take(1, kNow));
  static_cast<void>(numbers.Take(1, kNow));
  static_cast<void>(numbers.Take(0, kNow));
  numbers.Release(first, kNow);
  EXPECT_EQ(numbers.count_on(0), 1u);
  EXPECT_EQ(numbers.count_on(1), 1u);
  EXPECT_EQ(numbers.held(), 2u);
}

TEST(QueuePairNumbersTest, WhereNoNumberIsFreeNothingIsCounted) {
  QueuePairNumbers numbers(1, [] { return 7u; });
  EXPECT_EQ(numbers.Take(0, kNow), 7u);
  EXPECT_EQ(numbers.Take(0, kNow), 0u) << "each draw meets the number that is taken";
  EXPECT_EQ(numbers.count_on(0), 1u);
  EXPECT_EQ(numbers.held(), 1u);
}

}  // namespace
}  // namespace uroce::nic
