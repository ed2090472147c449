// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/sleeper.h"

#include <gtest/gtest.h>

namespace uroce::datapath {
namespace {

constexpr Nanos kSpin{20'000};
constexpr Nanos kTurn{100};
constexpr Nanos kSlowYield{cpu::Contention::kSlowYieldNs};

/// A worker's clock and policy.
class IdlePolicyTest : public testing::Test {
 protected:
  IdleStep After(bool busy, Nanos passed = kTurn) {
    now_ = now_ + passed;
    return policy_.AfterTurn(busy, now_, kSpin);
  }
  /// Empty turns until the policy wants something else than to poll.
  IdleStep AfterPolls() {
    IdleStep step = IdleStep::kPoll;
    while (step == IdleStep::kPoll) step = After(false);
    return step;
  }

  IdlePolicy policy_;
  Nanos now_{1'000'000'000};
};

TEST_F(IdlePolicyTest, PollsThenYieldsThenSleeps) {
  EXPECT_EQ(After(true), IdleStep::kPoll);
  for (uint32_t i = 0; i < SpinPolicy::kPollsBeforeYield; ++i) {
    EXPECT_EQ(After(false), IdleStep::kPoll) << i;
  }
  EXPECT_EQ(After(false), IdleStep::kYield);
  EXPECT_EQ(After(false), IdleStep::kYield);
  EXPECT_EQ(After(false, kSpin), IdleStep::kSleep);
  EXPECT_EQ(After(false), IdleStep::kSleep) << "a wake-up for nothing";
  EXPECT_EQ(After(true), IdleStep::kPoll);
  EXPECT_EQ(AfterPolls(), IdleStep::kYield);
}

TEST_F(IdlePolicyTest, AfterASlowYieldItPollsAndSleepsAtOnce) {
  After(true);
  ASSERT_EQ(AfterPolls(), IdleStep::kYield);
  EXPECT_EQ(After(true, kSlowYield + Nanos(1)), IdleStep::kPoll);
  for (uint32_t i = 0; i < SpinPolicy::kPollsBeforeYield; ++i) {
    EXPECT_EQ(After(false), IdleStep::kPoll) << i;
  }
  EXPECT_EQ(After(false), IdleStep::kSleep) << "long before it has polled for kSpin";
  EXPECT_EQ(After(true, Nanos(cpu::Contention::kFirstTrialNs)), IdleStep::kPoll);
  EXPECT_EQ(AfterPolls(), IdleStep::kYield) << "things may be better now";
}

TEST(SpinPolicyTest, TheTimeOfItsWorkIsNeitherAWaitNorAYield) {
  constexpr int64_t kSpinNs = 20'000;
  constexpr int64_t kWorkNs = 10 * cpu::Contention::kSlowYieldNs;
  SpinPolicy policy;
  int64_t now_ns = 1'000'000'000;
  const auto look = [&](bool found) { return policy.AfterLook(found, now_ns += 100, kSpinNs); };
  for (int i = 0; i < 3; ++i) {
    IdleStep step = look(true);
    policy.BeginWait(now_ns += kWorkNs);
    while (step == IdleStep::kPoll) step = look(false);
    EXPECT_EQ(step, IdleStep::kYield) << i;
  }
}

TEST(SpinPolicyTest, AThreadThatExpectsWorkSpinsLonger) {
  SpinPolicy policy;
  policy.BeginWait(1'000'000'000);
  EXPECT_EQ(policy.AfterLook(false, 1'000'050'000, 20'000), IdleStep::kSleep);
  EXPECT_EQ(policy.AfterLook(false, 1'000'060'000, 200'000), IdleStep::kPoll);
}

TEST_F(IdlePolicyTest, NeitherALongTurnNorALongSleepIsASlowYield) {
  After(true);
  EXPECT_EQ(After(true, kSlowYield * 2), IdleStep::kPoll);
  EXPECT_EQ(AfterPolls(), IdleStep::kYield);
  EXPECT_EQ(After(false, kSpin), IdleStep::kSleep);
  EXPECT_EQ(After(true, kSlowYield * 2), IdleStep::kPoll);
  EXPECT_EQ(AfterPolls(), IdleStep::kYield);
}

}  // namespace
}  // namespace uroce::datapath
