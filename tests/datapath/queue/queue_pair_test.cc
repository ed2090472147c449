// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/queue_pair.h"

#include <gtest/gtest.h>

namespace uroce::datapath {
namespace {

TEST(ListMembershipTest, EachListIsEnteredAndLeftOnce) {
  ListMembership lists;
  EXPECT_FALSE(lists.Leave(WorkerList::kHeld));
  EXPECT_TRUE(lists.Enter(WorkerList::kHeld));
  EXPECT_FALSE(lists.Enter(WorkerList::kHeld));
  EXPECT_TRUE(lists.Has(WorkerList::kHeld));
  EXPECT_TRUE(lists.Leave(WorkerList::kHeld));
  EXPECT_FALSE(lists.Leave(WorkerList::kHeld));
  EXPECT_FALSE(lists.Has(WorkerList::kHeld));
}

TEST(ListMembershipTest, ListsAreIndependent) {
  constexpr WorkerList kAll[] = {WorkerList::kTouched, WorkerList::kReceived, WorkerList::kHeld,
                                 WorkerList::kPostponed, WorkerList::kRetried};
  for (const WorkerList list : kAll) {
    ListMembership lists;
    EXPECT_TRUE(lists.Enter(list));
    for (const WorkerList other : kAll) EXPECT_EQ(lists.Has(other), other == list);
  }
}

}  // namespace
}  // namespace uroce::datapath
