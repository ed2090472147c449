// SPDX-License-Identifier: Apache-2.0
// Numbers of queue pairs, and where queue pairs live.
#include "nic/objects/numbers.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

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

/// Two NICs on the cable inside the daemon with this number.
struct CableEnds {
  explicit CableEnds(uint32_t cable)
      : first{.cable = cable, .device = 2 * cable},
        second{.cable = cable, .device = 2 * cable + 1} {}
  CablePlace first;
  CablePlace second;
};

uint32_t AddAt(QueuePairNumbers& numbers, const CablePlace& place) {
  const uint32_t worker = numbers.WorkerFor(std::nullopt, place);
  EXPECT_NE(numbers.Take(worker, kNow, place), 0u);
  return worker;
}

TEST(QueuePairNumbersTest, TheEndsOfACableUseWorkersInTheSameOrder) {
  QueuePairNumbers numbers(3);
  const CableEnds cable(1);
  for (const uint32_t worker : {1u, 2u, 0u, 1u}) {
    EXPECT_EQ(AddAt(numbers, cable.first), worker);
    EXPECT_EQ(AddAt(numbers, cable.second), worker);
  }
  EXPECT_EQ(numbers.WorkerFor(2, cable.first), 2u) << "what it uses is bound to a worker";
  EXPECT_EQ(AddAt(numbers, CableEnds(2).first), 2u) << "another cable begins elsewhere";
}

TEST(QueuePairNumbersTest, AllOfOneEndMayBeMadeBeforeThoseOfTheOther) {
  QueuePairNumbers numbers(2);
  const CableEnds cable(0);
  std::vector<uint32_t> first;
  std::vector<uint32_t> second;
  for (int i = 0; i < 5; ++i) first.push_back(AddAt(numbers, cable.first));
  for (int i = 0; i < 5; ++i) second.push_back(AddAt(numbers, cable.second));
  EXPECT_EQ(first, second);
  EXPECT_EQ(numbers.count_on(0), 6u);
  EXPECT_EQ(numbers.count_on(1), 4u);
}

TEST(QueuePairNumbersTest, AnEndThatLeavesMakesRoomOnItsWorker) {
  QueuePairNumbers numbers(2);
  const CableEnds cable(0);
  const Qpn qpn(numbers.Take(0, kNow, cable.first));
  EXPECT_EQ(numbers.WorkerFor(std::nullopt, cable.first), 1u);
  numbers.Release(qpn, kNow, cable.first);
  EXPECT_EQ(numbers.WorkerFor(std::nullopt, cable.first), 0u);
  EXPECT_EQ(numbers.count_on(0), 0u);
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
