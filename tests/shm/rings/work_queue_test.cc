// SPDX-License-Identifier: Apache-2.0
// Send and receive queues: order, wrap, and indices that a hostile program may write.
#include "pipeline/shm/rings/work_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uroce::rings {
namespace {

class WorkQueueTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 8;
  static constexpr uint32_t kSlotBytes = 64;

  /// Both ends as if `index` work requests had gone through already.
  void StartAt(uint32_t index) {
    produced_.value = index;
    producer_ = WorkQueueProducer(layout_, &produced_);
    consumer_ = WorkQueueConsumer(layout_, &produced_);
    consumer_.SkipAll();
  }
  void Post(uint8_t value) {
    *producer_.Slot(producer_.index()) = value;
    producer_.Advance();
    producer_.Publish();
  }
  int Take() {
    if (consumer_.Look() != QueueState::kReady) return -1;
    const uint8_t value = *consumer_.Slot();
    consumer_.Advance();
    return value;
  }

  std::vector<uint8_t> slots_ = std::vector<uint8_t>(kDepth * kSlotBytes);
  WorkQueueLayout layout_{slots_.data(), kDepth, kSlotBytes};
  uroce_line32 produced_{};
  WorkQueueProducer producer_{layout_, &produced_};
  WorkQueueConsumer consumer_{layout_, &produced_};
};

TEST_F(WorkQueueTest, EntriesArriveInOrderAcrossTheIndexWrap) {
  StartAt(0xfffffffa);
  for (uint8_t i = 0; i < 20; ++i) {
    Post(i);
    Post(static_cast<uint8_t>(i + 100));
    EXPECT_EQ(Take(), i);
    EXPECT_EQ(Take(), i + 100);
    EXPECT_EQ(Take(), -1);
  }
}

TEST_F(WorkQueueTest, AFullQueueIsLegal) {
  StartAt(0xfffffffc);
  for (uint8_t i = 0; i < kDepth; ++i) Post(i);
  EXPECT_EQ(consumer_.LookAgain(), QueueState::kReady);
  EXPECT_EQ(consumer_.seen(), kDepth);
  for (uint8_t i = 0; i < kDepth; ++i) EXPECT_EQ(Take(), i);
}

TEST_F(WorkQueueTest, WhatIsWrittenIsUnseenUntilPublished) {
  *producer_.Slot(producer_.index()) = 1;
  producer_.Advance();
  EXPECT_EQ(consumer_.Look(), QueueState::kEmpty);
  producer_.Publish();
  EXPECT_EQ(consumer_.Look(), QueueState::kReady);
}

TEST_F(WorkQueueTest, AnIndexThatPromisesMoreThanFitsIsCorrupt) {
  for (const uint32_t index : {kDepth + 1, 0x80000000u, 0xffffffffu}) {
    produced_.value = index;
    EXPECT_EQ(consumer_.Look(), QueueState::kCorrupt) << index;
    EXPECT_EQ(consumer_.seen(), 0u);
  }
}

TEST_F(WorkQueueTest, AnIndexThatGoesBackIsCorrupt) {
  Post(1);
  Post(2);
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), 2);
  produced_.value = 1;
  EXPECT_EQ(consumer_.Look(), QueueState::kCorrupt);
}

// A later lie does not take back what was already seen as posted.
TEST_F(WorkQueueTest, ACorruptIndexLeavesWhatWasSeenBefore) {
  Post(1);
  Post(2);
  EXPECT_EQ(Take(), 1);
  produced_.value = 77;
  EXPECT_EQ(consumer_.LookAgain(), QueueState::kCorrupt);
  EXPECT_EQ(consumer_.seen(), 1u);
  EXPECT_EQ(Take(), 2);
}

TEST_F(WorkQueueTest, SkipAllForgetsWhatWasPosted) {
  Post(1);
  Post(2);
  consumer_.SkipAll();
  EXPECT_EQ(Take(), -1);
  Post(3);
  EXPECT_EQ(Take(), 3);
}

TEST_F(WorkQueueTest, BytesOfASlotAreVisibleWithItsIndexToAnotherThread) {
  constexpr uint32_t kRounds = 50'000;
  uint32_t taken = 0;
  std::thread worker([&] {
    for (uint32_t i = 0; i < kRounds;) {
      const int value = Take();
      if (value < 0) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(value, static_cast<uint8_t>(i));
      StoreRelease(taken, ++i);
    }
  });
  for (uint32_t i = 0; i < kRounds; ++i) {
    while (i - LoadAcquire(taken) == kDepth) std::this_thread::yield();
    Post(static_cast<uint8_t>(i));
  }
  worker.join();
}

}  // namespace
}  // namespace uroce::rings
