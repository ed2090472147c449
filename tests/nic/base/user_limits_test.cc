// SPDX-License-Identifier: Apache-2.0
#include "nic/base/user_limits.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace uroce::nic {
namespace {

constexpr uid_t kUser = 61000, kOther = 61001;
constexpr Nanos kStart{5'000'000'000};
constexpr Nanos kAnHour{3'600'000'000'000};

uint32_t Taken(LogBudget& budget, uid_t uid, Nanos now, uint32_t tries) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i < tries; ++i) taken += budget.Take(uid, now) ? 1 : 0;
  return taken;
}

TEST(LogBudgetTest, AFloodGetsABurstAndThenALineInEachInterval) {
  LogBudget budget;
  EXPECT_EQ(Taken(budget, kUser, kStart, 1000), LogBudget::kBurst);
  EXPECT_FALSE(budget.Take(kUser, kStart + LogBudget::kInterval - Nanos(1)));
  EXPECT_TRUE(budget.Take(kUser, kStart + LogBudget::kInterval));
  EXPECT_FALSE(budget.Take(kUser, kStart + LogBudget::kInterval));
}

TEST(LogBudgetTest, ALongPauseGivesABurstAndNoMore) {
  LogBudget budget;
  EXPECT_EQ(Taken(budget, kUser, kStart, 1000), LogBudget::kBurst);
  EXPECT_EQ(Taken(budget, kUser, kStart + kAnHour, 1000), LogBudget::kBurst);
}

TEST(LogBudgetTest, UsersDoNotTakeFromEachOther) {
  LogBudget budget;
  EXPECT_EQ(Taken(budget, kUser, kStart, 1000), LogBudget::kBurst);
  EXPECT_TRUE(budget.Take(kOther, kStart));
}

TEST(LogBudgetTest, WhatWasLeftOutIsToldOnceAndCostsALine) {
  LogBudget budget;
  Taken(budget, kUser, kStart, LogBudget::kBurst + 7);
  EXPECT_TRUE(budget.TakeOmissions(kStart).empty()) << "there is no line for it";
  const Nanos later = kStart + LogBudget::kInterval;
  const auto told = budget.TakeOmissions(later);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].uid, kUser);
  EXPECT_EQ(told[0].lines, 7u);
  EXPECT_FALSE(budget.Take(kUser, later)) << "it was taken";
  EXPECT_EQ(budget.TakeOmissions(kStart + kAnHour).size(), 1u) << "the one just refused";
  EXPECT_TRUE(budget.TakeOmissions(kStart + kAnHour).empty());
}

constexpr Nanos kNow{1'000'000'000};

bool Enters(UserTurns& turns, uint64_t turn, uid_t uid, uint64_t id) {
  return turns.Enter(uid, id, turn, kNow) > kNow;
}

TEST(UserTurnsTest, AllConnectionsOfAUserShareAMillisecondInATurn) {
  UserTurns turns;
  EXPECT_EQ(turns.Enter(kUser, 1, 1, kNow), kNow + UserTurns::kTurnTime);
  turns.Leave(kUser, Nanos(1));
  EXPECT_EQ(turns.Enter(kUser, 2, 1, kNow), kNow + UserTurns::kTurnTime - Nanos(1));
  turns.Leave(kUser, UserTurns::kTurnTime);
  EXPECT_FALSE(Enters(turns, 1, kUser, 3));
  EXPECT_TRUE(Enters(turns, 1, kOther, 4)) << "another user has one of his own";
}

TEST(UserTurnsTest, AUserWhoCameTooLateIsFirstInTheNextTurn) {
  UserTurns turns;
  for (uint64_t turn = 1; turn < 20; ++turn) {
    for (const uint64_t id : {1ull, 2ull, 3ull}) {
      // As the loop has it: always in the same order, and each takes all that there is.
      if (Enters(turns, turn, kUser, id)) turns.Leave(kUser, UserTurns::kTurnTime * 2);
    }
  }
  std::map<uint64_t, int> entered;
  for (uint64_t turn = 20; turn < 50; ++turn) {
    for (const uint64_t id : {1ull, 2ull, 3ull}) {
      if (!Enters(turns, turn, kUser, id)) continue;
      ++entered[id];
      turns.Leave(kUser, UserTurns::kTurnTime * 2);
    }
  }
  for (const uint64_t id : {1ull, 2ull, 3ull}) EXPECT_EQ(entered[id], 10) << id;
}

TEST(UserTurnsTest, AUserWhoHasGoneDelaysNoOther) {
  UserTurns turns;
  ASSERT_TRUE(Enters(turns, 1, kUser, 1));
  turns.Leave(kUser, UserTurns::kTurnTime);
  ASSERT_FALSE(Enters(turns, 1, kUser, 2));
  EXPECT_FALSE(Enters(turns, 2, kUser, 1)) << "2 comes first";
  turns.Forget(kUser, 2);
  EXPECT_TRUE(Enters(turns, 3, kUser, 1));
}

constexpr uid_t kAlice = 1000;
constexpr uid_t kBob = 1001;

TEST(AdmissionTest, OneUserCannotTakeAllPlaces) {
  Admission admission({.total = 4, .per_user = 2});
  std::vector<Admission::Place> places;
  for (int i = 0; i < 2; ++i) places.push_back(*admission.Admit(kAlice, false));
  const auto third = admission.Admit(kAlice, false);
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_EQ(third.status().message(),
            "user 1000 has 2 programs connected, see --max-sessions-per-user");
  EXPECT_TRUE(admission.Admit(kBob, false).ok());
}

TEST(AdmissionTest, LimitsChangeForThoseWhoCome) {
  Admission admission({.total = 1, .per_user = 1});
  const auto first = admission.Admit(1000, false);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(admission.Admit(1001, false).ok());
  admission.SetLimits({.total = 2, .per_user = 1});
  EXPECT_TRUE(admission.Admit(1001, false).ok());
  admission.SetLimits({.total = 0, .per_user = 1});  // Who is there stays.
  EXPECT_FALSE(admission.Admit(1002, false).ok());
}

TEST(AdmissionTest, WhoLeavesMakesRoom) {
  Admission admission({.total = 1, .per_user = 1});
  std::optional<Admission::Place> place = *admission.Admit(kAlice, false);
  EXPECT_FALSE(admission.Admit(kAlice, false).ok());
  place.reset();
  EXPECT_TRUE(admission.Admit(kAlice, false).ok());
}

TEST(AdmissionTest, APlaceIsTakenForAsLongAsAnythingHoldsOnToIt) {
  Admission admission({.total = 1, .per_user = 1});
  std::optional<Admission::Place> place = *admission.Admit(kAlice, false);
  std::optional<Admission::Place> left_behind = place;
  place.reset();
  EXPECT_FALSE(admission.Admit(kAlice, false).ok());
  left_behind.reset();
  EXPECT_TRUE(admission.Admit(kAlice, false).ok());
}

TEST(AdmissionTest, ThePrivilegedGetInWhenAllPlacesAreTaken) {
  Admission admission({.total = 2, .per_user = 2});
  const Admission::Place one = *admission.Admit(kAlice, false);
  const Admission::Place two = *admission.Admit(kBob, false);
  const auto refused = admission.Admit(kBob, false);
  EXPECT_EQ(refused.status().message(), "2 programs are connected, see --max-sessions");
  std::vector<Admission::Place> places;
  for (uint32_t i = 0; i < Admission::kReserved; ++i) places.push_back(*admission.Admit(0, true));
  EXPECT_FALSE(admission.Admit(0, true).ok()) << "the reserve has an end too";
}

TEST(SharedQueueTest, TheUserWithMostLosesTheOldest) {
  SharedQueue<int> queue;
  queue.Add(kBob, 1);
  for (int item = 2; item <= 4; ++item) queue.Add(kAlice, item);
  EXPECT_EQ(queue.TakeExcess(4), std::nullopt);
  EXPECT_EQ(queue.TakeExcess(3), 2);
  EXPECT_EQ(queue.TakeExcess(2), 3);
  EXPECT_EQ(queue.TakeExcess(1), 1) << "of users with as many, the oldest of all";
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.front().item, 4);
}

TEST(SharedQueueTest, AFloodOfOneUserLeavesTheOthersTheirs) {
  SharedQueue<int> queue;
  queue.Add(kBob, 0);
  for (int item = 1; item <= 1000; ++item) {
    queue.Add(kAlice, item);
    queue.TakeExcess(3);
  }
  EXPECT_EQ(queue.front().uid, kBob);
  EXPECT_EQ(queue.entries().back().item, 1000) << "and it has its newest";
}

TEST(AdmissionTest, APlaceMayOutliveIt) {
  Admission::Place place;
  {
    Admission admission({.total = 2, .per_user = 2});
    place = *admission.Admit(kAlice, false);
  }
  place.reset();
}

TEST(QuotaTest, WhatItCountsTakesBytesOfAnother) {
  Quota bytes{.uid = kUser, .limit = 1000, .flag = "--max-own-bytes-per-user"};
  Quota large{.uid = kUser, .limit = 100, .bytes = &bytes, .bytes_each = 300};
  Quota small{.uid = kUser, .limit = 100, .bytes = &bytes, .bytes_each = 10};
  EXPECT_TRUE(large.Check("qp", 3).ok());
  EXPECT_FALSE(large.Check("qp", 4).ok());
  large.Take(3);
  EXPECT_EQ(bytes.used, 900u);
  EXPECT_TRUE(small.Check("pd", 10).ok());
  const absl::Status refused = small.Check("pd", 11);
  EXPECT_TRUE(absl::StrContains(refused.message(), "--max-own-bytes-per-user")) << refused;
  large.Give(1);
  EXPECT_TRUE(small.Check("pd", 40).ok());
  EXPECT_EQ(bytes.used, 600u);
}

TEST(PoolTest, AUserHoldsNoMoreThanIsLeftForOthers) {
  Pool pool{.size = 100, .reserve = 4};
  Quota first{.uid = kUser, .limit = 1000, .pool = &pool};
  Quota second{.uid = kOther, .limit = 1000, .pool = &pool};
  Quota root{.limit = 1000, .pool = &pool, .is_privileged = true};
  const auto take_all = [](Quota& quota) {
    while (quota.Check("thing", 1).ok()) quota.Take(1);
    return quota.used;
  };
  EXPECT_EQ(take_all(first), 48u) << "half of what is not reserved";
  EXPECT_EQ(take_all(second), 24u) << "half of the rest";
  EXPECT_EQ(take_all(first), 48u);
  EXPECT_EQ(take_all(root), 28u) << "all, the reserve too";
  first.Give(48);
  EXPECT_EQ(pool.used, 52u);
  EXPECT_EQ(take_all(second), 34u) << "as much as is left to the first";
}

TEST(PoolTest, AShareOfThreeIsThreeQuarters) {
  Pool pool{.size = 100, .share = 3};
  EXPECT_TRUE(pool.HasRoom(0, 75, false));
  EXPECT_FALSE(pool.HasRoom(0, 80, false));
  EXPECT_FALSE(pool.HasRoom(0, UINT64_MAX, false));
  EXPECT_TRUE(pool.HasRoom(0, 100, true));
  EXPECT_FALSE(pool.HasRoom(0, 101, true));
}

TEST(AdmissionTest, PlacesBecomeFewerAsUsersCome) {
  Admission admission({.total = 64, .per_user = 32});
  std::vector<Admission::Place> places;
  const auto count = [&](uid_t uid) {
    uint32_t admitted = 0;
    while (true) {
      absl::StatusOr<Admission::Place> place = admission.Admit(uid, false);
      if (!place.ok()) return admitted;
      places.push_back(*std::move(place));
      ++admitted;
    }
  };
  EXPECT_EQ(count(kUser), 32u);
  EXPECT_EQ(count(kOther), 16u);
  EXPECT_EQ(count(kOther + 1), 8u);
  EXPECT_EQ(count(kOther + 2), 4u) << "each who comes finds some";
}

TEST(LoginUsersTest, UidsOfARangeAreTheLoginUsers) {
  constexpr char kPasswd[] = "root:x:0:0:::\nann:x:1000:1000:::\n";
  constexpr char kSubuid[] =
      "ann:100000:65536\n1001:200000:10\nroot:300000:10\n2000:400000:10\ncentral:500000:10\n"
      "central:600000:10\nno line\nann:700000:4294967295\n";
  LoginUsers users(kSubuid, kPasswd, /*own_user=*/2000);
  EXPECT_EQ(users.Of(100000), 1000u);
  EXPECT_EQ(users.Of(165535), 1000u);
  EXPECT_EQ(users.Of(165536), 165536u);
  EXPECT_EQ(users.Of(99999), 99999u);
  EXPECT_EQ(users.Of(200009), 1001u);
  EXPECT_EQ(users.Of(300000), 300000u) << "root's are not one user";
  EXPECT_EQ(users.Of(400000), 400000u) << "nor are those of the daemon's user";
  EXPECT_EQ(users.Of(500003), 500000u);
  EXPECT_EQ(users.Of(600003), 500000u) << "another range of the same user";
  EXPECT_EQ(users.Of(4294967294), 1000u);
  EXPECT_EQ(users.Of(0), 0u);
  EXPECT_EQ(LoginUsers("", "", 2000).Of(100000), 100000u);
}

}  // namespace
}  // namespace uroce::nic
