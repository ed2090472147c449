// SPDX-License-Identifier: Apache-2.0
#include "pipeline/base/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce::cpu {
namespace {

class ContentionTest : public testing::Test {
 protected:
  static constexpr int64_t kSlow = Contention::kSlowYieldNs + 1;
  static constexpr int64_t kFast = 1'000;

  void Yield(int64_t took_ns) {
    now_ns_ += took_ns;
    contention_.OnYield(took_ns, now_ns_);
  }
  void YieldFast(uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) Yield(kFast);
  }
  /// Lets time pass until it may yield; returns how long.
  int64_t UntilYield() {
    int64_t passed_ns = 0;
    for (; !contention_.MayYield(now_ns_); passed_ns += kStepNs) now_ns_ += kStepNs;
    return passed_ns;
  }

  static constexpr int64_t kStepNs = 1'000'000;

  Contention contention_;
  int64_t now_ns_ = 5'000'000'000;
};

TEST_F(ContentionTest, AThreadAloneOnItsCoreYields) {
  YieldFast(1000);
  Yield(Contention::kSlowYieldNs);
  EXPECT_FALSE(contention_.is_known());
  EXPECT_TRUE(contention_.MayYield(now_ns_));
}

TEST_F(ContentionTest, AfterASlowYieldThereIsNoneForAWhile) {
  Yield(kSlow);
  EXPECT_TRUE(contention_.is_known());
  EXPECT_EQ(UntilYield(), Contention::kFirstTrialNs);
}

TEST_F(ContentionTest, TrialsBecomeSeldomWhileYieldsStaySlow) {
  Yield(kSlow);
  int64_t wait_ns = Contention::kFirstTrialNs;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(UntilYield(), wait_ns) << i;
    Yield(Contention::kFastYieldNs);  // Something else ran.
    wait_ns = std::min(wait_ns * 2, Contention::kLongestTrialNs);
  }
  EXPECT_EQ(wait_ns, Contention::kLongestTrialNs);
}

TEST_F(ContentionTest, FastYieldsInARowEndIt) {
  Yield(kSlow);
  UntilYield();
  YieldFast(Contention::kFastYields - 1);
  EXPECT_TRUE(contention_.is_known());
  EXPECT_TRUE(contention_.MayYield(now_ns_)) << "the trial goes on";
  YieldFast(1);
  EXPECT_FALSE(contention_.is_known());
}

TEST_F(ContentionTest, OneThatSeemedToHaveEndedGoesOn) {
  Yield(kSlow);
  UntilYield();
  YieldFast(Contention::kFastYields);
  ASSERT_FALSE(contention_.is_known());
  Yield(kSlow);
  EXPECT_EQ(UntilYield(), 2 * Contention::kFirstTrialNs);
}

TEST_F(ContentionTest, OneThatBeginsLaterIsANewOne) {
  Yield(kSlow);
  UntilYield();
  YieldFast(Contention::kFastYields);
  now_ns_ += Contention::kLongestTrialNs;
  Yield(kSlow);
  EXPECT_EQ(UntilYield(), Contention::kFirstTrialNs);
}

TEST_F(ContentionTest, OneYieldThatIsNotFastEndsTheTrial) {
  Yield(kSlow);
  UntilYield();
  YieldFast(Contention::kFastYields - 1);
  Yield(Contention::kFastYieldNs);
  EXPECT_FALSE(contention_.MayYield(now_ns_));
  UntilYield();
  YieldFast(Contention::kFastYields - 1);
  EXPECT_TRUE(contention_.is_known()) << "fast yields of two trials do not count together";
}

}  // namespace
}  // namespace uroce::cpu
