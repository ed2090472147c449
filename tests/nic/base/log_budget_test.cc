// SPDX-License-Identifier: Apache-2.0
#include "nic/base/rate.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace uroce::nic
