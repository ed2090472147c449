// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/frame.h"

#include <cstring>
#include <memory>

#include "tests/datapath/worker/parts/parts.h"

namespace uroce::datapath {
namespace {

class FrameStashTest : public PartsTest {
 protected:
  DeviceCounters& counters_ = device_.counters(0);
};

TEST_F(FrameStashTest, WhatIsNotUsedGoesBackToThePool) {
  const uint32_t before = rte_mempool_avail_count(TestPool());
  {
    FrameStash stash(TestPool());
    rte_mbuf* const frame = stash.Take(counters_);
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(rte_mempool_avail_count(TestPool()), before - kBurst);
    stash.Return(frame);
    EXPECT_EQ(stash.Take(counters_), frame);
    stash.Return(frame);
  }
  EXPECT_EQ(rte_mempool_avail_count(TestPool()), before);
}

TEST_F(FrameStashTest, AnEmptyPoolIsCounted) {
  rte_mempool* const small =
      rte_pktmbuf_pool_create("stash_test", kBurst, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  ASSERT_NE(small, nullptr);
  {
    FrameStash stash(small);
    std::vector<rte_mbuf*> taken;
    for (uint32_t i = 0; i < kBurst; ++i) taken.push_back(stash.Take(counters_));
    EXPECT_EQ(stash.Take(counters_), nullptr);
    EXPECT_EQ(device_.Sum(&DeviceCounters::no_buffer), 1u);
    for (rte_mbuf* frame : taken) stash.Return(frame);
  }
  rte_mempool_free(small);
}

TEST_F(FrameStashTest, ACopyHasTheSameBytesElsewhere) {
  FrameStash stash(TestPool());
  rte_mbuf* const frame = stash.Take(counters_);
  std::memset(rte_pktmbuf_append(frame, 100), 0x5a, 100);
  rte_mbuf* const copy = stash.Copy(*frame, counters_);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->data_len, 100);
  EXPECT_EQ(copy->pkt_len, 100u);
  EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(copy, uint8_t*), rte_pktmbuf_mtod(frame, uint8_t*), 100),
            0);
  for (rte_mbuf* each : {frame, copy}) rte_pktmbuf_free(each);
}

TEST_F(FrameStashTest, ACopyOfAFrameWithoutAnIcrcSaysSoToo) {
  const drivers::PendingIcrc pending;
  FrameStash stash(TestPool());
  rte_mbuf* const frame = stash.Take(counters_);
  rte_mbuf* const with = stash.Copy(*frame, counters_);
  pending.Set(*frame);
  rte_mbuf* const without = stash.Copy(*frame, counters_);
  EXPECT_FALSE(pending.IsSet(*with));
  EXPECT_TRUE(pending.IsSet(*without));
  for (rte_mbuf* each : {frame, with, without}) rte_pktmbuf_free(each);
}

}  // namespace
}  // namespace uroce::datapath
