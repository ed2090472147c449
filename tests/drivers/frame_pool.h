// SPDX-License-Identifier: Apache-2.0
// DPDK and a pool of frames for tests of ports.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "drivers/dpdk/eal.h"
#include "pipeline/port/superframes.h"
#include "pipeline/wire/superframe.h"

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
  /// A superframe of whole frames, untagged over IPv4 or IPv6, in a buffer of `buffers`.
  rte_mbuf* SuperframeOf(LongBuffers& buffers, const std::vector<std::vector<uint8_t>>& packets) {
    const size_t headers = wire::FindUdp(packets[0])->payload_offset;
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool_);
    EXPECT_TRUE(buffers.Lend(*frame));
    std::vector<uint8_t> all = packets[0];
    for (size_t i = 1; i < packets.size(); ++i) {
      all.insert(all.end(), packets[i].begin() + static_cast<std::ptrdiff_t>(headers),
                 packets[i].end());
    }
    std::memcpy(rte_pktmbuf_mtod(frame, uint8_t*), all.data(), all.size());
    frame->data_len = static_cast<uint16_t>(all.size());
    frame->pkt_len = frame->data_len;
    SuperframeMark().Set(*frame, static_cast<uint16_t>(packets[0].size() - headers));
    return frame;
  }
  /// The frames that `superframe`, which is freed, is cut into.
  std::vector<std::vector<uint8_t>> CutToBytes(rte_mbuf* superframe) {
    std::vector<std::vector<uint8_t>> cut;
    CutSuperframe(superframe, pool_, [&](rte_mbuf* frame) {
      const auto* const begin = rte_pktmbuf_mtod(frame, const uint8_t*);
      cut.emplace_back(begin, begin + frame->data_len);
      rte_pktmbuf_free(frame);
    });
    return cut;
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
