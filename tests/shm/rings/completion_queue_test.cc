// SPDX-License-Identifier: Apache-2.0
// The rings of a completion queue, its arm word and the word of pollers.
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "pipeline/shm/rings/completion_queue.h"
#include "tests/shm/rings/one_by_one.h"

namespace uroce::rings {
namespace {

// Completion rings: laps, a full ring, and indices that a hostile program may write.

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

// The rings of several workers under one queue: fair turns, order within each, and what a resize
// leaves.

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
      continue;  // The record may be of an entry that was polled before it was written: arm again.
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

// The arm word: one record for each arming, NEXT over SOLICITED, none lost between two threads.

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

// Arm, poll again, then wait: with a lost record the program would wait without end.
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

// The word of threads that sleep until a completion comes.

class PollersTest : public testing::Test {
 protected:
  uroce_line32 word_{};
};

TEST_F(PollersTest, EachQueueHasItsBit) {
  EXPECT_EQ(PollerBit(0), 1u);
  EXPECT_EQ(PollerBit(31), 0x80000000u);
  EXPECT_EQ(PollerBit(33), PollerBit(1));
}

TEST_F(PollersTest, OnlyTheBitOfTheQueueIsTaken) {
  EXPECT_EQ(AnnouncePoller(word_, 0b101), 0b101u);
  EXPECT_EQ(AnnouncePoller(word_, 0b010), 0b111u) << "the value with the bits of others";
  EXPECT_FALSE(HasPollers(word_, 0b1000));
  EXPECT_TRUE(HasPollers(word_, 0b001));
  EXPECT_TRUE(TakePollers(word_, 0b001));
  EXPECT_FALSE(TakePollers(word_, 0b001)) << "one wake-up for one announcement";
  EXPECT_EQ(word_.value, 0b110u);
}

// Announce, poll once more, then sleep while the word has its value.
TEST_F(PollersTest, ACompletionIsPolledAfterTheAnnouncementOrChangesTheWord) {
  PassOneByOne(
      [&] {
        FullFence();
        if (HasPollers(word_, 1)) (void)TakePollers(word_, 1);
      },
      [&] { return AnnouncePoller(word_, 1); },
      [&](uint32_t value) {
        while (LoadRelaxed(word_.value) == value) std::this_thread::yield();
      });
}

}  // namespace
}  // namespace uroce::rings
