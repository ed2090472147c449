// SPDX-License-Identifier: Apache-2.0
// A program keeps mappings for itself.
#include "verbs-shim/memory/maps.h"

#include <gtest/gtest.h>

namespace uroce::memory {
namespace {

TEST(MapBudgetTest, AnEighthOfTheLimitIsTheProgramsOwn) {
  EXPECT_EQ(MapBudget::Share(7000, 8000), 0u);
  EXPECT_EQ(MapBudget::Share(6998, 8000), 0u) << "a swap may take three";
  EXPECT_EQ(MapBudget::Share(6997, 8000), 1u);
  EXPECT_EQ(MapBudget::Share(70000, 65530), 0u);
}

TEST(MapBudgetTest, ItIsLookedAtAgainAfterAThousandSwaps) {
  EXPECT_EQ(MapBudget::Share(50, 65530), 1024u);
  EXPECT_EQ(MapBudget::Share(50, 10'000'000), 1024u);
}

TEST(MapBudgetTest, AnOrdinaryProgramHasRoom) {
  MapBudget budget;
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(budget.Take());
}

}  // namespace
}  // namespace uroce::memory
