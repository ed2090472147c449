// SPDX-License-Identifier: Apache-2.0
// The arm word: one record for each arming, NEXT over SOLICITED, none lost between two threads.
#include "pipeline/shm/rings/completion_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/shm/rings/one_by_one.h"

namespace uroce::rings {
namespace {

class ArmingTest : public testing::Test {
 protected:
  uroce_cq_page page_{};
};

TEST_F(ArmingTest, WithoutArmingThereIsNoRecord) { EXPECT_FALSE(TakeArming(page_, true)); }

TEST_F(ArmingTest, OneArmingMakesOneRecord) {
  Arm(page_, false);
  EXPECT_TRUE(TakeArming(page_, false));
  EXPECT_FALSE(TakeArming(page_, true));
}

TEST_F(ArmingTest, ArmingForSolicitedIgnoresOthers) {
  Arm(page_, true);
  EXPECT_FALSE(TakeArming(page_, false));
  EXPECT_TRUE(TakeArming(page_, true));
}

TEST_F(ArmingTest, NextWinsOverSolicitedInEitherOrder) {
  Arm(page_, true);
  Arm(page_, false);
  EXPECT_TRUE(TakeArming(page_, false));
  Arm(page_, false);
  Arm(page_, true);
  EXPECT_TRUE(TakeArming(page_, false));
}

TEST_F(ArmingTest, UnknownValuesMakeNoRecord) {
  page_.arm.value = 0x80000002;
  EXPECT_FALSE(TakeArming(page_, true));
}

// Arm, poll again, then wait: with a lost record the program would wait for ever.
TEST_F(ArmingTest, ACompletionIsPolledAfterArmingOrMakesARecord) {
  uint32_t records = 0;
  PassOneByOne(
      [&] {
        if (TakeArming(page_, false)) __atomic_fetch_add(&records, 1, __ATOMIC_SEQ_CST);
      },
      [&] {
        const uint32_t before = __atomic_load_n(&records, __ATOMIC_SEQ_CST);
        Arm(page_, false);
        return before;
      },
      [&](uint32_t before) {
        while (__atomic_load_n(&records, __ATOMIC_SEQ_CST) == before) std::this_thread::yield();
      });
}

}  // namespace
}  // namespace uroce::rings
