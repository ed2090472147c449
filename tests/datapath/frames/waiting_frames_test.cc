// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/frames/waiting_frames.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>

#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

ProgramFrames OfUser(uint32_t uid) {
  return {.user = std::make_shared<UserFrames>(uid, std::make_shared<std::atomic<uint32_t>>(0))};
}

/// The frames of a test; what is left comes back to the pool of this process.
class KeptFramesTest : public testing::Test {
 protected:
  bool Keep(KeptFramePool& pool, KeptFrames& kept, ProgramFrames& program, uint32_t psn) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
    if (pool.Keep(kept, program, wire::Psn(psn), frame)) return true;
    rte_pktmbuf_free(frame);
    return false;
  }
  /// How many of `count` PSNs from `first` on are kept.
  uint32_t KeepMany(KeptFramePool& pool, KeptFrames& kept, ProgramFrames& program, uint32_t first,
                    uint32_t count) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; ++i) taken += Keep(pool, kept, program, first + i);
    return taken;
  }
};

TEST_F(KeptFramesTest, AFrameIsFoundByItsPsnOnce) {
  KeptFramePool pool({.of_worker = 64, .of_program = 64, .of_queue_pair = 64});
  KeptFrames kept;
  ProgramFrames program = OfUser(1);
  rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
  ASSERT_TRUE(pool.Keep(kept, program, wire::Psn(0xffffff), frame));
  EXPECT_FALSE(Keep(pool, kept, program, 0xffffff)) << "kept already";
  EXPECT_EQ(pool.Take(kept, program, wire::Psn(0)), nullptr);
  EXPECT_EQ(pool.Take(kept, program, wire::Psn(0xffffff)), frame);
  EXPECT_EQ(pool.Take(kept, program, wire::Psn(0xffffff)), nullptr);
  EXPECT_FALSE(kept.any());
  EXPECT_EQ(program.kept + program.user->kept + pool.count(), 0u);
  rte_pktmbuf_free(frame);
}

TEST_F(KeptFramesTest, DroppingFreesAllOfOneQueuePairAlone) {
  const uint32_t before = rte_mempool_avail_count(TestPool());
  KeptFramePool pool({.of_worker = 400, .of_program = 400, .of_queue_pair = 100});
  KeptFrames a;
  KeptFrames b;
  ProgramFrames program = OfUser(1);
  EXPECT_EQ(KeepMany(pool, a, program, 1000, 50), 50u);
  EXPECT_EQ(KeepMany(pool, b, program, 1000, 10), 10u);
  EXPECT_EQ(pool.Drop(a, program), 50u);
  EXPECT_FALSE(a.any());
  EXPECT_EQ(program.kept, 10u);
  EXPECT_EQ(pool.Drop(b, program), 10u);
  EXPECT_EQ(pool.count(), 0u);
  EXPECT_EQ(rte_mempool_avail_count(TestPool()), before);
}

// A queue pair alone has its whole window with the limits of the daemon.
TEST_F(KeptFramesTest, OneQueuePairAloneHasAWindow) {
  KeptFramePool pool({.of_worker = 600, .of_program = 400, .of_queue_pair = 200});
  KeptFrames kept;
  ProgramFrames program = OfUser(1);
  EXPECT_EQ(KeepMany(pool, kept, program, 0, 300), 200u);
  pool.Drop(kept, program);
}

// A program with any number of queue pairs takes a third, and leaves as much to another user.
TEST_F(KeptFramesTest, AProgramThatTakesAllItCanLeavesAsMuch) {
  KeptFramePool pool({.of_worker = 384, .of_program = 384, .of_queue_pair = 384});
  std::array<KeptFrames, 64> greedy;
  ProgramFrames program = OfUser(1);
  uint32_t taken = 0;
  for (KeptFrames& kept : greedy) taken += KeepMany(pool, kept, program, 0, 64);
  EXPECT_LE(taken, 128u);
  EXPECT_GE(taken, 120u);
  KeptFrames other;
  ProgramFrames others = OfUser(2);
  EXPECT_GE(KeepMany(pool, other, others, 0, 64), 40u);
  for (KeptFrames& kept : greedy) pool.Drop(kept, program);
  pool.Drop(other, others);
  EXPECT_EQ(pool.count(), 0u);
}

// However many programs a user has, half is left to others.
TEST_F(KeptFramesTest, AUserWithManyProgramsLeavesHalf) {
  KeptFramePool pool({.of_worker = 384, .of_program = 384, .of_queue_pair = 384});
  const ProgramFrames first = OfUser(1);
  std::array<ProgramFrames, 16> programs;
  std::array<KeptFrames, 16> greedy;
  uint32_t taken = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    programs[i].user = first.user;
    taken += KeepMany(pool, greedy[i], programs[i], 0, 384);
  }
  EXPECT_GE(taken, 180u);
  EXPECT_LE(taken, 192u);
  KeptFrames other;
  ProgramFrames others = OfUser(2);
  EXPECT_GE(KeepMany(pool, other, others, 0, 384), 60u);
  for (size_t i = 0; i < programs.size(); ++i) pool.Drop(greedy[i], programs[i]);
  pool.Drop(other, others);
  EXPECT_EQ(first.user->kept, 0u);
}

TEST_F(KeptFramesTest, WithoutAnyNothingIsKept) {
  KeptFramePool pool({.of_worker = 0, .of_program = 10, .of_queue_pair = 10});
  KeptFrames kept;
  ProgramFrames program = OfUser(1);
  EXPECT_FALSE(Keep(pool, kept, program, 1));
}

}  // namespace
}  // namespace uroce::datapath
