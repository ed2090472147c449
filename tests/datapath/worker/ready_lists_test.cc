// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/ready_lists.h"

#include <algorithm>

#include "tests/datapath/worker/parts.h"

namespace uroce::datapath {
namespace {

class ReadyListsTest : public PartsTest {
 protected:
  std::vector<QueuePair*> Touched() {
    std::vector<QueuePair*> touched;
    ready_.TakeTouched([&](QueuePair& qp) { touched.push_back(&qp); });
    return touched;
  }
  std::vector<QueuePair*> Postponed() {
    std::vector<QueuePair*> postponed;
    ready_.TakePostponed([&](QueuePair& qp) { postponed.push_back(&qp); });
    return postponed;
  }
  void NextTurn() { time_.Begin(time_.now() + Nanos(1000)); }

  ReadyLists ready_{sessions_, time_};
};

using QueuePairs = std::vector<QueuePair*>;

TEST_F(ReadyListsTest, WhoIsTouchedTwiceIsLookedAfterOnce) {
  QueuePair& a = AddQueuePair();
  QueuePair& b = AddQueuePair();
  ready_.Touch(a);
  ready_.Touch(b);
  ready_.Touch(a);
  EXPECT_EQ(Touched(), (QueuePairs{&a, &b}));
  EXPECT_EQ(Touched(), QueuePairs{});
  EXPECT_FALSE(ready_.has_work());
}

TEST_F(ReadyListsTest, WhoIsTouchedMeanwhileIsLookedAfterInTheSameTurn) {
  QueuePair& a = AddQueuePair();
  QueuePair& b = AddQueuePair();
  QueuePairs touched;
  ready_.Touch(a);
  ready_.TakeTouched([&](QueuePair& qp) {
    if (touched.empty()) {
      ready_.Touch(b);
      ready_.Touch(a);
    }
    touched.push_back(&qp);
  });
  EXPECT_EQ(touched, (QueuePairs{&a, &b, &a}));
}

TEST_F(ReadyListsTest, WhoIsPostponedMeanwhileWaitsForTheNextTurn) {
  QueuePair& qp = AddQueuePair();
  ready_.Postpone(qp);
  int visits = 0;
  ready_.TakePostponed([&](QueuePair& its) {
    ++visits;
    ready_.Postpone(its);
  });
  EXPECT_EQ(visits, 1);
  EXPECT_TRUE(ready_.has_work());
  EXPECT_EQ(Touched(), QueuePairs{&qp}) << "a postponed one is touched when it is its turn";
  NextTurn();
  EXPECT_EQ(Postponed(), QueuePairs{&qp});
  EXPECT_EQ(Postponed(), QueuePairs{});
}

TEST_F(ReadyListsTest, AProgramBeyondItsBudgetWaitsAndOthersDoNot) {
  Session& greedy = AddProgram();
  constexpr uint32_t kMany = kTurnOfProgram.queue_pairs + 1;
  for (uint32_t i = 0; i < kMany; ++i) ready_.Postpone(*AddEndpoint(greedy).qp);
  QueuePair& other = AddQueuePair();
  ready_.Postpone(other);
  const QueuePairs first = Postponed();
  EXPECT_EQ(first.size(), kTurnOfProgram.queue_pairs + 1u);
  EXPECT_EQ(std::ranges::count(first, &other), 1);
  EXPECT_EQ(Postponed(), QueuePairs{}) << "in the same turn";
  NextTurn();
  EXPECT_EQ(Postponed().size(), 1u);
}

TEST_F(ReadyListsTest, ARungBellTouchesTheQueuePairsOfItsSlotAndHasThemLookForSends) {
  Endpoint& a = AddEndpoint(AddProgram());
  QueuePair& b = AddQueuePair();
  EXPECT_FALSE(ready_.TakeDoorbells());
  ASSERT_FALSE(a.qp->may_have_sends());
  ASSERT_FALSE(rings::Ring(*a.session->doorbells(0), a.slot)) << "nobody sleeps";
  EXPECT_TRUE(ready_.TakeDoorbells());
  EXPECT_EQ(Touched(), QueuePairs{a.qp.get()});
  EXPECT_TRUE(a.qp->may_have_sends());
  EXPECT_FALSE(b.may_have_sends());
}

TEST_F(ReadyListsTest, WhoGoesIsInNoListAnyMore) {
  QueuePair& gone = AddQueuePair();
  QueuePair& stays = AddQueuePair();
  for (QueuePair* qp : {&gone, &stays}) {
    ready_.Touch(*qp);
    ready_.AddReceived(*qp);
    ready_.Postpone(*qp);
  }
  ready_.Remove(gone);
  QueuePairs received;
  ready_.TakeReceived([&](QueuePair& qp) { received.push_back(&qp); });
  EXPECT_EQ(received, QueuePairs{&stays});
  EXPECT_EQ(Touched(), QueuePairs{&stays});
  EXPECT_EQ(Postponed(), QueuePairs{&stays});
}

}  // namespace
}  // namespace uroce::datapath
