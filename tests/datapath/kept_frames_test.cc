// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/kept_frames.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>

#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

/// The frames of a test; what is left comes back to the pool of this process.
class KeptFramesTest : public testing::Test {
 protected:
  bool Keep(KeptFramePool& pool, KeptFrames& kept, uint32_t& program, uint32_t psn) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
    if (pool.Keep(kept, program, wire::Psn(psn), frame)) return true;
    rte_pktmbuf_free(frame);
    return false;
  }
  /// How many of `count` PSNs from `first` on are kept.
  uint32_t KeepMany(KeptFramePool& pool, KeptFrames& kept, uint32_t& program, uint32_t first,
                    uint32_t count) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; ++i) taken += Keep(pool, kept, program, first + i);
    return taken;
  }
};

TEST_F(KeptFramesTest, AFrameIsFoundByItsPsnOnce) {
  KeptFramePool pool({.of_worker = 64, .of_program = 64, .of_queue_pair = 64});
  KeptFrames kept;
  uint32_t program = 0;
  rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
  ASSERT_TRUE(pool.Keep(kept, program, wire::Psn(0xffffff), frame));
  EXPECT_FALSE(Keep(pool, kept, program, 0xffffff)) << "kept already";
  EXPECT_EQ(pool.Take(kept, program, wire::Psn(0)), nullptr);
  EXPECT_EQ(pool.Take(kept, program, wire::Psn(0xffffff)), frame);
  EXPECT_EQ(pool.Take(kept, program, wire::Psn(0xffffff)), nullptr);
  EXPECT_FALSE(kept.any());
  EXPECT_EQ(program + pool.count(), 0u);
  rte_pktmbuf_free(frame);
}

TEST_F(KeptFramesTest, DroppingFreesAllOfOneQueuePairAlone) {
  const uint32_t before = rte_mempool_avail_count(TestPool());
  KeptFramePool pool({.of_worker = 400, .of_program = 400, .of_queue_pair = 100});
  KeptFrames a;
  KeptFrames b;
  uint32_t program = 0;
  EXPECT_EQ(KeepMany(pool, a, program, 1000, 50), 50u);
  EXPECT_EQ(KeepMany(pool, b, program, 1000, 10), 10u);
  EXPECT_EQ(pool.Drop(a, program), 50u);
  EXPECT_FALSE(a.any());
  EXPECT_EQ(program, 10u);
  EXPECT_EQ(pool.Drop(b, program), 10u);
  EXPECT_EQ(pool.count(), 0u);
  EXPECT_EQ(rte_mempool_avail_count(TestPool()), before);
}

// A queue pair alone has its whole window with the limits of the daemon.
TEST_F(KeptFramesTest, OneQueuePairAloneHasAWindow) {
  KeptFramePool pool({.of_worker = 600, .of_program = 400, .of_queue_pair = 200});
  KeptFrames kept;
  uint32_t program = 0;
  EXPECT_EQ(KeepMany(pool, kept, program, 0, 300), 200u);
  pool.Drop(kept, program);
}

// A program with any number of queue pairs leaves half to the others; the next one half of that.
TEST_F(KeptFramesTest, AProgramThatTakesAllItCanLeavesAsMuch) {
  KeptFramePool pool({.of_worker = 256, .of_program = 256, .of_queue_pair = 256});
  std::array<KeptFrames, 64> greedy;
  uint32_t program = 0;
  uint32_t taken = 0;
  for (KeptFrames& kept : greedy) taken += KeepMany(pool, kept, program, 0, 64);
  EXPECT_LE(taken, 128u);
  EXPECT_GE(taken, 120u);
  KeptFrames other;
  uint32_t others = 0;
  EXPECT_GE(KeepMany(pool, other, others, 0, 64), 40u);
  for (KeptFrames& kept : greedy) pool.Drop(kept, program);
  pool.Drop(other, others);
  EXPECT_EQ(pool.count(), 0u);
}

TEST_F(KeptFramesTest, WithoutAnyNothingIsKept) {
  KeptFramePool pool({.of_worker = 0, .of_program = 10, .of_queue_pair = 10});
  KeptFrames kept;
  uint32_t program = 0;
  EXPECT_FALSE(Keep(pool, kept, program, 1));
}

}  // namespace
}  // namespace uroce::datapath
