// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/schedule.h"

#include <algorithm>

#include "tests/datapath/worker/parts/parts.h"

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
  /// A queue pair that takes sends.
  Endpoint& AddReady(Session& session) {
    Endpoint& added = AddEndpoint(session);
    for (const auto state :
         {transport::QpState::kInit, transport::QpState::kRtr, transport::QpState::kRts}) {
      added.qp->core().Modify(state, {});
    }
    return added;
  }
  void NextTurn() { time_.Begin(time_.now() + Nanos(1000)); }

  static constexpr uint32_t kUser = 61000;
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
  Endpoint& a = AddReady(AddProgram());
  QueuePair& b = *AddReady(AddProgram()).qp;
  EXPECT_FALSE(ready_.TakeDoorbells());
  ASSERT_FALSE(a.qp->works().may_have_sends());
  a.PostSend({});
  EXPECT_TRUE(ready_.TakeDoorbells());
  EXPECT_EQ(Touched(), QueuePairs{a.qp.get()});
  EXPECT_TRUE(a.qp->works().may_have_sends());
  EXPECT_FALSE(b.works().may_have_sends());
}

TEST_F(ReadyListsTest, ABellBehindWhichNothingIsPostedTouchesNoQueuePair) {
  Endpoint& ready = AddReady(AddProgram());
  Endpoint& not_ready = AddEndpoint(AddProgram());
  not_ready.PostSend({});  // In RESET sends are not taken.
  ready.RingBell();
  EXPECT_FALSE(ready_.TakeDoorbells()) << "the worker has done nothing";
  EXPECT_EQ(Touched(), QueuePairs{});
}

TEST_F(ReadyListsTest, ABellInTheErrorStateIsAboutReceivesToo) {
  Endpoint& failed = AddReady(AddProgram());
  failed.qp->core().Modify(transport::QpState::kErr, {});
  failed.PostReceive(1, {});
  failed.RingBell();
  EXPECT_TRUE(ready_.TakeDoorbells());
  EXPECT_EQ(Touched(), QueuePairs{failed.qp.get()});
}

TEST_F(ReadyListsTest, WhoRingsForNothingIsLookedAtLess) {
  Session& idle = AddProgram();
  for (uint32_t i = 0; i < kTurnOfProgram.queue_pairs; ++i) AddReady(idle);
  const auto ring_all = [&] {
    for (const auto& endpoint : endpoints_) (void)rings::Ring(*idle.doorbells(0), endpoint->slot);
  };
  const auto taken = [&] {
    NextTurn();
    ring_all();
    const uint32_t budget = kTurnOfProgram.queue_pairs;
    (void)ready_.TakeDoorbells();
    return budget - sessions_.Find(&idle)->Left(time_.number(), &TurnAmounts::queue_pairs);
  };
  EXPECT_EQ(taken(), kTurnOfProgram.queue_pairs);
  for (int turns = 0; turns < 6; ++turns) (void)taken();
  NextTurn();
  EXPECT_EQ(sessions_.Find(&idle)->Left(time_.number(), &TurnAmounts::queue_pairs),
            kTurnOfProgram.queue_pairs / 16);
  // Who posts has all of its turn again.
  for (const auto& endpoint : endpoints_) endpoint->PostSend({});
  for (int turns = 0; turns < 6; ++turns) (void)taken();
  NextTurn();
  EXPECT_EQ(sessions_.Find(&idle)->Left(time_.number(), &TurnAmounts::queue_pairs),
            kTurnOfProgram.queue_pairs);
}

TEST_F(ReadyListsTest, AUserWhoseProgramsRingForNothingIsLookedAtLess) {
  std::vector<WorkerSession*> programs;
  for (int i = 0; i < 8; ++i) {
    Session& program = AddProgram(kUser);
    programs.push_back(sessions_.Find(&program));
    for (uint32_t j = 0; j < kTurnOfProgram.queue_pairs; ++j) AddReady(program);
  }
  for (int turns = 0; turns < 6; ++turns) {
    NextTurn();
    for (const auto& endpoint : endpoints_) {
      (void)rings::Ring(*endpoint->session->doorbells(0), endpoint->slot);
    }
    (void)ready_.TakeDoorbells();
  }
  NextTurn();
  EXPECT_EQ(programs[0]->user->budget.Of(time_.number()).queue_pairs, kTurnOfUser.queue_pairs / 16);
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
