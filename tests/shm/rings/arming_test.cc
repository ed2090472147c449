// SPDX-License-Identifier: Apache-2.0
// The arm word: one record for each arming, NEXT over SOLICITED, none lost between two threads.
#include "pipeline/shm/rings/arming.h"

#include <gtest/gtest.h>

#include <thread>

#include "pipeline/shm/rings/cqe_ring.h"

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
  constexpr uint64_t kRounds = 5'000;
  uroce_cqe entries[4] = {};
  uroce_cq_ring_page ring_page{};
  const CqeRingLayout layout{&ring_page, entries, 4};
  uint32_t records = 0;
  uint64_t polled = 0;
  std::thread worker([&] {
    CqeProducer producer(layout);
    for (uint64_t i = 0; i < kRounds; ++i) {
      while (LoadAcquire(polled) != i) std::this_thread::yield();
      ASSERT_EQ(producer.Push(uroce_cqe{.wr_id = i}), PushResult::kOk);
      if (TakeArming(page_, false)) __atomic_fetch_add(&records, 1, __ATOMIC_SEQ_CST);
    }
  });
  CqeConsumer consumer(layout);
  for (uint64_t i = 0; i < kRounds; ++i) {
    const uint32_t before = __atomic_load_n(&records, __ATOMIC_SEQ_CST);
    Arm(page_, false);
    while (consumer.Peek() == nullptr) {
      while (__atomic_load_n(&records, __ATOMIC_SEQ_CST) == before) std::this_thread::yield();
    }
    consumer.Advance();
    consumer.Publish();
    StoreRelease(polled, i + 1);
  }
  worker.join();
  SUCCEED();
}

}  // namespace
}  // namespace uroce::rings
