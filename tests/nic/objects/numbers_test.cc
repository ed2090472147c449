// SPDX-License-Identifier: Apache-2.0
// Numbers of queue pairs, and where queue pairs live.
#include "nic/objects/numbers.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
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

TEST(QueuePairNumbersTest, ANewQueuePairGoesToADriverOfItsPort) {
  QueuePairNumbers numbers(4);
  const NicPlace one{.end = {}, .drivers = SetOf(2)};
  const NicPlace two{.end = {}, .drivers = SetOf(1) | SetOf(3)};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(numbers.WorkerFor(std::nullopt, one), 2u);
  ASSERT_NE(numbers.Take(1, kNow, two), 0u);
  EXPECT_EQ(numbers.WorkerFor(std::nullopt, two), 3u) << "fewer are there";
  ASSERT_NE(numbers.Take(3, kNow, two), 0u);
  ASSERT_NE(numbers.Take(3, kNow, two), 0u);
  EXPECT_EQ(numbers.WorkerFor(std::nullopt, two), 1u);
  EXPECT_EQ(numbers.WorkerFor(0, two), 0u) << "what it uses is bound to a worker";
}

/// Two NICs on the cable inside the daemon with this number.
struct CableEnds {
  explicit CableEnds(uint32_t cable)
      : first{.end = {{.cable = cable, .device = 2 * cable}}},
        second{.end = {{.cable = cable, .device = 2 * cable + 1}}} {}
  NicPlace first;
  NicPlace second;
};

uint32_t AddAt(QueuePairNumbers& numbers, const NicPlace& place) {
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
  numbers.Release(qpn, 0, kNow, cable.first);
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
  numbers.Release(first, 1, kNow);
  EXPECT_EQ(numbers.count_on(0), 1u);
  EXPECT_EQ(numbers.count_on(1), 1u);
  EXPECT_EQ(numbers.held(), 2u);
}

TEST(QueuePairNumbersTest, AMovedQueuePairIsCountedAtItsNewWorker) {
  QueuePairNumbers numbers(2);
  const CableEnds cable(0);
  const Qpn qpn(numbers.Take(0, kNow, cable.first));
  static_cast<void>(numbers.Take(1, kNow, cable.first));
  numbers.Move(0, 1, cable.first);
  EXPECT_EQ(numbers.count_on(0), 0u);
  EXPECT_EQ(numbers.count_on(1), 2u);
  EXPECT_EQ(numbers.WorkerFor(std::nullopt, cable.first), 0u) << "the end of the cable has moved";
  numbers.Release(qpn, 1, kNow, cable.first);
  EXPECT_EQ(numbers.count_on(0), 0u);
  EXPECT_EQ(numbers.count_on(1), 1u);
}

/// Queue pairs that are about to be connected, on two workers.
class ConnectionPlacementTest : public testing::Test {
 protected:
  /// Connects `own`, which is on `worker`, to `remote`, and returns where it is then.
  uint32_t Connect(uint32_t own, uint32_t worker, uint32_t remote, uint32_t remote_worker) {
    const uint32_t to = placement_.WorkerFor(Qpn(own), worker, Qpn(remote), remote_worker);
    placement_.Connect(Qpn(own), to);
    return to;
  }
  void Add(std::initializer_list<uint32_t> numbers) {
    for (const uint32_t number : numbers) placement_.Add(Qpn(number), true);
  }

  ConnectionPlacement placement_{2};
};

TEST_F(ConnectionPlacementTest, TheSecondEndFollowsTheFirst) {
  Add({10, 11});
  EXPECT_EQ(Connect(10, 0, 11, 1), 0u) << "the other end follows later";
  EXPECT_EQ(Connect(11, 1, 10, 0), 0u);
  EXPECT_EQ(placement_.connected_on(0), 2u);
}

TEST_F(ConnectionPlacementTest, AnEndFollowsOneThatCannotMove) {
  Add({10});
  placement_.Add(Qpn(11), false);
  EXPECT_EQ(Connect(10, 0, 11, 1), 1u) << "an object binds the other end to its worker";
  Add({12});
  EXPECT_EQ(Connect(12, 0, 99, 1), 1u) << "the other end is not known";
}

TEST_F(ConnectionPlacementTest, CrossedConnectionsGoToAWorkerEach) {
  // Four orders in which the ends of two crossed connections may be connected.
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      ConnectionPlacement placement(2);
      std::map<uint32_t, uint32_t> at = {{10, 0}, {11, 1}, {20, 1}, {21, 0}};
      for (const auto& [qpn, worker] : at) placement.Add(Qpn(qpn), true);
      const auto connect = [&](uint32_t own, uint32_t remote) {
        at[own] = placement.WorkerFor(Qpn(own), at[own], Qpn(remote), at[remote]);
        placement.Connect(Qpn(own), at[own]);
      };
      connect(first ? 11 : 10, first ? 10 : 11);
      connect(second ? 21 : 20, second ? 20 : 21);
      connect(first ? 10 : 11, first ? 11 : 10);
      connect(second ? 20 : 21, second ? 21 : 20);
      EXPECT_EQ(at[10], at[11]) << first << second;
      EXPECT_EQ(at[20], at[21]) << first << second;
      EXPECT_NE(at[10], at[20]) << first << second;
    }
  }
}

TEST_F(ConnectionPlacementTest, AConnectionGoesWhereFewestAreConnected) {
  Add({10, 11, 20, 21});
  EXPECT_EQ(Connect(10, 0, 11, 0), 0u) << "it stays where that is as good";
  EXPECT_EQ(Connect(11, 0, 10, 0), 0u);
  EXPECT_EQ(Connect(20, 0, 21, 0), 1u) << "both ends were made on the busy worker";
  EXPECT_EQ(Connect(21, 0, 20, 1), 1u);
}

TEST_F(ConnectionPlacementTest, AConnectionThatEndsMakesRoom) {
  Add({10, 20, 21});
  EXPECT_EQ(Connect(10, 0, 11, 0), 0u);
  placement_.Remove(Qpn(10));
  placement_.Remove(Qpn(10));
  EXPECT_EQ(placement_.connected_on(0), 0u);
  EXPECT_EQ(Connect(20, 0, 21, 0), 0u);
}

TEST_F(ConnectionPlacementTest, AnEndMovesBeforeItsFirstConnectionAlone) {
  Add({10});
  EXPECT_TRUE(placement_.MayMove(Qpn(10)));
  placement_.Connect(Qpn(10), 1);
  EXPECT_FALSE(placement_.MayMove(Qpn(10)));
  EXPECT_FALSE(placement_.MayMove(Qpn(11))) << "never added";
}

TEST_F(ConnectionPlacementTest, AQueuePairMayBeItsOwnPeer) {
  Add({10});
  EXPECT_EQ(Connect(10, 1, 10, 1), 1u);
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
