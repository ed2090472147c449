// SPDX-License-Identifier: Apache-2.0
// Completion rings: laps, a full ring, and indices that a hostile program may write.
#include "pipeline/shm/rings/completion_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uroce::rings {
namespace {

class CqeRingTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 4;
  PushResult Push(uint64_t wr_id) { return producer_.Push(uroce_cqe{.wr_id = wr_id}); }
  int64_t Poll() {
    const uroce_cqe* cqe = consumer_.Peek();
    if (cqe == nullptr) return -1;
    const auto wr_id = static_cast<int64_t>(cqe->wr_id);
    consumer_.Advance();
    consumer_.Publish();
    return wr_id;
  }

  uroce_cq_ring_page page_{};
  std::vector<uroce_cqe> entries_ = std::vector<uroce_cqe>(kDepth);
  CqeRingLayout layout_{&page_, entries_.data(), kDepth};
  CqeProducer producer_{layout_};
  CqeConsumer consumer_{layout_};
};

TEST_F(CqeRingTest, FreshMemoryIsEmpty) { EXPECT_EQ(Poll(), -1); }

TEST_F(CqeRingTest, EntriesArriveInOrderOverManyLaps) {
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Push(i), PushResult::kOk);
    EXPECT_EQ(Poll(), i);
    EXPECT_EQ(Poll(), -1);
  }
}

TEST_F(CqeRingTest, AFullRingRefusesUntilOneIsPolled) {
  for (uint64_t i = 0; i < kDepth; ++i) EXPECT_EQ(Push(i), PushResult::kOk);
  EXPECT_EQ(Push(99), PushResult::kFull);
  EXPECT_EQ(Poll(), 0);
  EXPECT_EQ(Push(4), PushResult::kOk);
  EXPECT_EQ(Push(99), PushResult::kFull);
  for (int64_t i = 1; i <= 4; ++i) EXPECT_EQ(Poll(), i);
}

TEST_F(CqeRingTest, AnImpossibleConsumedIndexIsCorrupt) {
  for (const uint32_t consumed : {kDepth + 1, 0x80000000u, 0xffffffffu}) {
    CqeProducer producer(layout_);
    page_.consumed.value = 0;
    for (uint64_t i = 0; i < kDepth; ++i) {
      ASSERT_EQ(producer.Push(uroce_cqe{.wr_id = i}), PushResult::kOk);
    }
    page_.consumed.value = consumed;
    EXPECT_EQ(producer.Push({}), PushResult::kCorrupt) << consumed;
  }
}

TEST_F(CqeRingTest, TheConsumedIndexIsNotReadWhileThereIsRoom) {
  page_.consumed.value = 0x80000000;
  for (uint64_t i = 0; i < kDepth; ++i) EXPECT_EQ(Push(i), PushResult::kOk);
  EXPECT_EQ(Push(99), PushResult::kCorrupt);
}

TEST_F(CqeRingTest, ADepthOfOneWorks) {
  const CqeRingLayout layout{&page_, entries_.data(), 1};
  CqeProducer producer(layout);
  CqeConsumer consumer(layout);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(producer.Push(uroce_cqe{.wr_id = i}), PushResult::kOk);
    ASSERT_EQ(producer.Push({}), PushResult::kFull);
    ASSERT_NE(consumer.Peek(), nullptr);
    consumer.Advance();
    consumer.Publish();
    ASSERT_EQ(consumer.Peek(), nullptr);
  }
}

TEST_F(CqeRingTest, GenerationsOfNeighbouringLapsDifferAcrossTheIndexWrap) {
  for (const uint32_t depth : {1u, 4u, 1u << 18, 1u << 30}) {
    EXPECT_EQ(Generation(0, depth), 1u);
    EXPECT_NE(Generation(0xffffffff, depth), Generation(0, depth)) << depth;
    EXPECT_NE(Generation(0xffffffff - depth, depth), Generation(0xffffffff, depth)) << depth;
  }
}

TEST_F(CqeRingTest, EntriesThatWaitCanBeMarked) {
  ASSERT_EQ(Push(1), PushResult::kOk);
  ASSERT_EQ(Push(2), PushResult::kOk);
  ASSERT_EQ(Push(3), PushResult::kOk);
  EXPECT_EQ(Poll(), 1);
  int count = 0;
  consumer_.ForEachWaiting([&](uroce_cqe& cqe) {
    cqe.qp_handle = UROCE_NONE;
    ++count;
  });
  EXPECT_EQ(count, 2);
  EXPECT_EQ(consumer_.Peek()->qp_handle, UROCE_NONE);
}

TEST_F(CqeRingTest, MarkingAFullRingEndsAfterOneLap) {
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(Push(i), PushResult::kOk);
  uint32_t count = 0;
  consumer_.ForEachWaiting([&](uroce_cqe&) { ++count; });
  EXPECT_EQ(count, kDepth);
}

TEST_F(CqeRingTest, AnEntryIsWholeWhenAnotherThreadSeesIt) {
  constexpr uint64_t kRounds = 50'000;
  std::thread worker([&] {
    for (uint64_t i = 0; i < kRounds;) {
      const uroce_cqe cqe = {.wr_id = i, .byte_len = static_cast<uint32_t>(i)};
      if (producer_.Push(cqe) == PushResult::kOk) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (uint64_t i = 0; i < kRounds;) {
    const uroce_cqe* cqe = consumer_.Peek();
    if (cqe == nullptr) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(cqe->wr_id, i);
    ASSERT_EQ(cqe->byte_len, static_cast<uint32_t>(i));
    consumer_.Advance();
    consumer_.Publish();
    ++i;
  }
  worker.join();
}

}  // namespace
}  // namespace uroce::rings
