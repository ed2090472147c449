// SPDX-License-Identifier: Apache-2.0
#include "nic/base/user_limits.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"

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

TEST(UserTurnsTest, WhoeverCameTooLateIsFirstInTheNextTurn) {
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

TEST(UserTurnsTest, OneThatIsGoneHoldsUpNobody) {
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

TEST(AdmissionTest, APlaceMayOutliveIt) {
  Admission::Place place;
  {
    Admission admission({.total = 2, .per_user = 2});
    place = *admission.Admit(kAlice, false);
  }
  place.reset();
}

}  // namespace
}  // namespace uroce::nic
