// SPDX-License-Identifier: Apache-2.0
// DPDK and a pool of frames for tests of ports.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "drivers/dpdk/eal.h"

namespace uroce::drivers {

/// Starts DPDK once for the test program and makes a pool per test.
class FramePoolTest : public testing::Test {
 protected:
  static constexpr uint32_t kFrames = 2048;

  static void SetUpTestSuite() {
    static const absl::Status started = InitEal({.memory_mib = 64});
    ASSERT_TRUE(started.ok()) << started;
  }
  void SetUp() override {
    static int made = 0;
    auto pool = MakePool("test_pool_" + std::to_string(made++), 2048, kFrames);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *pool;
  }
  void TearDown() override {
    EXPECT_EQ(rte_mempool_avail_count(pool_), kFrames) << "a frame was lost or freed twice";
    rte_mempool_free(pool_);
  }

  rte_mempool* pool() const { return pool_; }
  /// A frame of `bytes`, the first four of them `number`, the others 0x5a.
  rte_mbuf* Frame(uint32_t number, uint16_t bytes = 64) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool_);
    frame->data_len = bytes;
    frame->pkt_len = bytes;
    char* const data = rte_pktmbuf_mtod(frame, char*);
    std::memset(data, 0x5a, bytes);
    std::memcpy(data, &number, sizeof number);
    return frame;
  }
  static uint32_t NumberOf(const rte_mbuf* frame) {
    uint32_t number;
    std::memcpy(&number, rte_pktmbuf_mtod(frame, const char*), sizeof number);
    return number;
  }

 private:
  rte_mempool* pool_ = nullptr;
};

}  // namespace uroce::drivers
