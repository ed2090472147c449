// SPDX-License-Identifier: Apache-2.0
// Doorbells: nothing rung is lost, nothing is reported twice, a sleeper is always woken.
#include "pipeline/shm/rings/doorbells.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

namespace uroce::rings {
namespace {

std::vector<uint32_t> TakeAll(uroce_doorbells& doorbells) {
  std::vector<uint32_t> slots;
  const uint32_t taken = Take(doorbells, [&](uint32_t slot) { slots.push_back(slot); });
  EXPECT_GE(taken, slots.size());
  return slots;
}

class DoorbellsTest : public testing::Test {
 protected:
  std::unique_ptr<uroce_doorbells> doorbells_ = std::make_unique<uroce_doorbells>();
};

TEST_F(DoorbellsTest, EverySlotArrivesOnceHoweverOftenItRings) {
  for (const uint32_t slot : {0u, 63u, 64u, UROCE_DOORBELL_SLOTS - 1, 63u, 0u}) {
    EXPECT_FALSE(Ring(*doorbells_, slot));
  }
  EXPECT_EQ(TakeAll(*doorbells_), (std::vector<uint32_t>{0u, 63u, 64u, UROCE_DOORBELL_SLOTS - 1}));
  EXPECT_TRUE(TakeAll(*doorbells_).empty());
}

TEST_F(DoorbellsTest, AllSlotsMayRingAtOnce) {
  for (uint32_t slot = 0; slot < UROCE_DOORBELL_SLOTS; ++slot) (void)Ring(*doorbells_, slot);
  EXPECT_EQ(TakeAll(*doorbells_).size(), UROCE_DOORBELL_SLOTS);
}

TEST_F(DoorbellsTest, BellsBehindTheLastSlotAreForgotten) {
  for (const uint32_t limit : {0u, 1u, 63u, 64u, 65u, 4096u, 4097u, UROCE_DOORBELL_SLOTS}) {
    for (uint32_t slot = 0; slot < UROCE_DOORBELL_SLOTS; ++slot) (void)Ring(*doorbells_, slot);
    uint32_t next = 0;
    DoorbellCursor cursor;
    EXPECT_EQ(TakeSome(*doorbells_, limit, UROCE_DOORBELL_SLOTS, cursor,
                       [&](uint32_t slot) { EXPECT_EQ(slot, next++); }),
              limit);
    EXPECT_FALSE(HasRung(*doorbells_)) << limit;
  }
}

// A few at a time, and the first ones ring again each time: each has its turn, and none twice.
TEST_F(DoorbellsTest, NoneIsPassedOverThatRingsOnce) {
  constexpr uint32_t kMost = 64;
  for (uint32_t slot = 0; slot < UROCE_DOORBELL_SLOTS; ++slot) (void)Ring(*doorbells_, slot);
  std::vector<uint32_t> times(UROCE_DOORBELL_SLOTS);
  DoorbellCursor cursor;
  for (uint32_t turn = 0; turn < UROCE_DOORBELL_SLOTS / kMost; ++turn) {
    EXPECT_EQ(TakeSome(*doorbells_, UROCE_DOORBELL_SLOTS, kMost, cursor,
                       [&](uint32_t slot) { ++times[slot]; }),
              kMost);
    (void)Ring(*doorbells_, 0);
  }
  EXPECT_EQ(times, std::vector<uint32_t>(UROCE_DOORBELL_SLOTS, 1));
  EXPECT_EQ(TakeAll(*doorbells_), std::vector<uint32_t>{0});
}

// All ring all the time: each has its turn as often as the others.
TEST_F(DoorbellsTest, NoneIsPassedOverWhileAllRing) {
  constexpr uint32_t kSlots = 200;
  for (const uint32_t most : {1u, 4u, 7u, 64u, 150u}) {
    std::vector<uint32_t> times(kSlots);
    DoorbellCursor cursor;
    for (uint32_t turn = 0; turn < 2 * kSlots; ++turn) {
      for (uint32_t slot = 0; slot < kSlots; ++slot) (void)Ring(*doorbells_, slot);
      EXPECT_EQ(TakeSome(*doorbells_, kSlots, most, cursor, [&](uint32_t slot) { ++times[slot]; }),
                most);
    }
    const auto [least, greatest] = std::ranges::minmax(times);
    EXPECT_EQ(least, 2 * most) << most;
    EXPECT_EQ(greatest, 2 * most) << most;
    (void)TakeAll(*doorbells_);
  }
}

TEST_F(DoorbellsTest, WhatIsLeftOfAWordIsTakenLater) {
  for (const uint32_t slot : {3u, 5u, 60u}) (void)Ring(*doorbells_, slot);
  DoorbellCursor cursor;
  std::vector<uint32_t> slots;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(HasRung(*doorbells_));
    EXPECT_EQ(TakeSome(*doorbells_, 64, 1, cursor, [&](uint32_t slot) { slots.push_back(slot); }),
              1u);
    (void)Ring(*doorbells_, 3);
  }
  EXPECT_EQ(slots, (std::vector<uint32_t>{3, 5, 60}));
}

TEST_F(DoorbellsTest, SummaryBitsWithoutWordsAreHarmless) {
  for (uint64_t& summary : doorbells_->summary) summary = ~uint64_t{0};
  EXPECT_TRUE(HasRung(*doorbells_));
  EXPECT_TRUE(TakeAll(*doorbells_).empty());
  EXPECT_FALSE(HasRung(*doorbells_));
}

TEST_F(DoorbellsTest, RingAsksForAWakeUpOnlyOfASleeper) {
  EXPECT_FALSE(Ring(*doorbells_, 1));
  (void)TakeAll(*doorbells_);
  EXPECT_TRUE(AnnounceSleep(*doorbells_));
  EXPECT_TRUE(Ring(*doorbells_, 1));
  AnnounceAwake(*doorbells_);
  EXPECT_FALSE(Ring(*doorbells_, 1));
}

TEST_F(DoorbellsTest, SleepIsRefusedWhenADoorbellWaits) {
  EXPECT_FALSE(Ring(*doorbells_, 7));
  EXPECT_FALSE(AnnounceSleep(*doorbells_));
}

// Two ringing threads against one taker: the last index that each stored before it rang is seen.
TEST_F(DoorbellsTest, NoPostBehindADoorbellIsLostBetweenThreads) {
  constexpr uint32_t kRounds = 20'000;
  uint32_t posted[2] = {};
  const auto ring = [&](uint32_t queue) {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      StoreRelease(posted[queue], i);
      (void)Ring(*doorbells_, queue * 64);
    }
  };
  std::thread first(ring, 0);
  std::thread second(ring, 1);
  uint32_t seen[2] = {};
  while (seen[0] != kRounds || seen[1] != kRounds) {
    const uint32_t taken =
        Take(*doorbells_, [&](uint32_t slot) { seen[slot / 64] = LoadAcquire(posted[slot / 64]); });
    if (taken == 0) std::this_thread::yield();
  }
  first.join();
  second.join();
  SUCCEED();
}

// A worker that sleeps whenever it may: were one wake-up lost, the token would never come back.
TEST_F(DoorbellsTest, ARingIsTakenOrWakesTheSleeper) {
  constexpr uint32_t kRounds = 2'000;
  uint32_t taken = 0;
  uint32_t wake = 0;
  std::thread worker([&] {
    for (uint32_t rounds = 0; rounds < kRounds;) {
      rounds += Take(*doorbells_, [](uint32_t) {});
      StoreRelease(taken, rounds);
      if (rounds == kRounds) break;
      if (AnnounceSleep(*doorbells_)) {
        while (__atomic_exchange_n(&wake, 0, __ATOMIC_ACQ_REL) == 0) std::this_thread::yield();
      }
      AnnounceAwake(*doorbells_);
    }
  });
  for (uint32_t i = 1; i <= kRounds; ++i) {
    if (Ring(*doorbells_, 5)) StoreRelease(wake, 1u);
    while (LoadAcquire(taken) != i) std::this_thread::yield();
  }
  worker.join();
  SUCCEED();
}

}  // namespace
}  // namespace uroce::rings
