// SPDX-License-Identifier: Apache-2.0
// The rings of several workers under one queue: fair turns, order within each, and what a resize
// leaves.
#include "pipeline/shm/rings/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace uroce::rings {
namespace {

struct Memory {
  explicit Memory(uint32_t depth) : entries(depth) {}
  CqeRingLayout layout() { return {&page, entries.data(), static_cast<uint32_t>(entries.size())}; }
  uroce_cq_ring_page page{};
  std::vector<uroce_cqe> entries;
};

class CqeRingsTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 64;

  void Install(uint32_t worker) {
    rings_.Install(worker, memory_[worker].layout());
    producers_[worker] = CqeProducer(memory_[worker].layout());
  }
  void Push(uint32_t worker, uint64_t wr_id) {
    ASSERT_EQ(producers_[worker].Push(uroce_cqe{.wr_id = wr_id}), PushResult::kOk);
  }
  int64_t Poll() {
    const uroce_cqe* cqe = rings_.Peek();
    const int64_t wr_id = cqe == nullptr ? -1 : static_cast<int64_t>(cqe->wr_id);
    if (cqe != nullptr) rings_.Advance();
    rings_.Publish();
    return wr_id;
  }

  std::array<Memory, 3> memory_{Memory(kDepth), Memory(kDepth), Memory(kDepth)};
  std::array<WorkerCqeRing, 3> places_;
  std::array<CqeProducer, 3> producers_;
  CqeRings rings_{places_.data()};
};

TEST_F(CqeRingsTest, AQueueWithoutQueuePairsIsEmpty) {
  EXPECT_EQ(Poll(), -1);
  EXPECT_FALSE(rings_.Has(0));
}

TEST_F(CqeRingsTest, AnyRingIsFoundWherever) {
  for (const uint32_t worker : {2u, 0u, 1u}) Install(worker);
  for (const uint32_t worker : {0u, 1u, 2u, 2u, 0u}) {
    Push(worker, worker);
    EXPECT_EQ(Poll(), worker);
    EXPECT_EQ(Poll(), -1);
  }
}

TEST_F(CqeRingsTest, ABusyRingGivesWayAfterItsTurn) {
  Install(0);
  Install(1);
  for (uint64_t i = 0; i < kDepth; ++i) Push(0, i);
  Push(1, 1000);
  Push(1, 1001);
  std::vector<int64_t> order;
  for (int64_t wr_id = Poll(); wr_id >= 0; wr_id = Poll()) order.push_back(wr_id);
  ASSERT_EQ(order.size(), kDepth + 2);
  EXPECT_EQ(order[CqeRings::kTurn], 1000);
  EXPECT_EQ(order[CqeRings::kTurn + 1], 1001);
  int64_t next = 0;
  for (const int64_t wr_id : order) {
    if (wr_id < 1000) {
      EXPECT_EQ(wr_id, next++) << "order within a ring";
    }
  }
}

TEST_F(CqeRingsTest, PolledEntriesOfEveryRingAreGivenBack) {
  Install(0);
  Install(1);
  for (uint64_t i = 0; i < 3; ++i) Push(0, i);
  Push(1, 9);
  for (int i = 0; i < 4; ++i) {
    ASSERT_NE(rings_.Peek(), nullptr);
    rings_.Advance();
  }
  EXPECT_EQ(rings_.Peek(), nullptr);
  rings_.Publish();
  EXPECT_EQ(memory_[0].page.consumed.value, 3u);
  EXPECT_EQ(memory_[1].page.consumed.value, 1u);
}

TEST_F(CqeRingsTest, AResizedRingTakesTheOldOnesPlace) {
  Install(0);
  Install(1);
  for (uint64_t i = 0; i < 5; ++i) Push(1, i);
  EXPECT_EQ(Poll(), 0);
  Memory fresh(8);
  const CqeProducer& old = producers_[1];
  const uint32_t oldest = old.produced() - old.waiting();
  CopyWaiting(old.layout(), oldest, 0, 2, fresh.layout());
  CopyWaiting(old.layout(), oldest, 2, old.waiting(), fresh.layout());
  rings_.Install(1, fresh.layout());
  producers_[1] = CqeProducer(fresh.layout(), old.waiting());
  EXPECT_EQ(rings_.count(), 2u);
  Push(1, 5);
  for (int64_t i = 1; i <= 5; ++i) EXPECT_EQ(Poll(), i);
  EXPECT_EQ(Poll(), -1);
}

TEST_F(CqeRingsTest, WaitingEntriesOfAllRingsCanBeMarked) {
  Install(0);
  Install(1);
  Push(0, 1);
  Push(1, 2);
  Push(1, 3);
  uint32_t count = 0;
  rings_.ForEachWaiting([&](uroce_cqe&) { ++count; });
  EXPECT_EQ(count, 3u);
}

// Arm, poll again, then wait, against two workers: one record for each arming, and none is missing
// that the program waits for.
TEST_F(CqeRingsTest, TwoWorkersMakeOneRecordPerArming) {
  constexpr uint64_t kRounds = 2'000;
  Install(0);
  Install(1);
  uroce_cq_page page{};
  uint32_t records = 0;
  uint64_t polled = 0;  // Of both: a worker goes on when all its entries were polled.
  const auto work = [&](uint32_t worker) {
    for (uint64_t i = 0; i < kRounds; ++i) {
      while (producers_[worker].waiting() != 0) std::this_thread::yield();
      ASSERT_EQ(producers_[worker].Push(uroce_cqe{.wr_id = i, .qp_num = worker}), PushResult::kOk);
      if (TakeArming(page, false)) __atomic_fetch_add(&records, 1, __ATOMIC_SEQ_CST);
    }
  };
  std::thread first(work, 0);
  std::thread second(work, 1);
  std::array<uint64_t, 2> next{};
  uint32_t armings = 0;
  while (polled < 2 * kRounds) {
    const uint32_t before = __atomic_load_n(&records, __ATOMIC_SEQ_CST);
    Arm(page, false);
    ++armings;
    const uroce_cqe* cqe = rings_.Peek();
    if (cqe == nullptr) {
      while (__atomic_load_n(&records, __ATOMIC_SEQ_CST) == before) std::this_thread::yield();
      continue;  // The record may be of an entry that was polled before it was written: arm anew.
    }
    ASSERT_EQ(cqe->wr_id, next[cqe->qp_num]++);
    rings_.Advance();
    rings_.Publish();
    ++polled;
  }
  first.join();
  second.join();
  EXPECT_LE(__atomic_load_n(&records, __ATOMIC_SEQ_CST), armings);
}

}  // namespace
}  // namespace uroce::rings
