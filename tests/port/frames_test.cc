// SPDX-License-Identifier: Apache-2.0
// The mark of a frame without an ICRC: who fills the ICRC in, and what stays as it is.
#include "pipeline/port/frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/drivers/frame_pool.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

class PendingIcrcTest : public FramePoolTest, public testing::WithParamInterface<bool> {
 protected:
  /// A packet without its ICRC, marked.
  rte_mbuf* Marked() {
    rte_mbuf* const frame = Frame(0, static_cast<uint16_t>(whole_.size()));
    auto* const bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    std::copy(whole_.begin(), whole_.end(), bytes);
    std::fill_n(bytes + whole_.size() - wire::kIcrcBytes, wire::kIcrcBytes, 0x77);
    pending_.Set(*frame);
    return frame;
  }
  bool IsWhole(const rte_mbuf* frame) const {
    return std::equal(whole_.begin(), whole_.end(), rte_pktmbuf_mtod(frame, const uint8_t*));
  }

  const std::vector<uint8_t> whole_ = wire::PacketTrain{.ipv6 = GetParam()}.Next(1023);
  const PendingIcrc pending_;
};

TEST_P(PendingIcrcTest, FilledInItIsThatOfThePacketAndTheMarkStays) {
  rte_mbuf* const frame = Marked();
  EXPECT_FALSE(IsWhole(frame));
  pending_.Fill(*frame);
  EXPECT_TRUE(IsWhole(frame));
  EXPECT_TRUE(pending_.IsSet(*frame));
  rte_pktmbuf_free(frame);
}

TEST_P(PendingIcrcTest, SettledItIsCheckedAgain) {
  rte_mbuf* const frame = Marked();
  pending_.Settle(*frame);
  EXPECT_TRUE(IsWhole(frame));
  EXPECT_FALSE(pending_.IsSet(*frame));
  rte_pktmbuf_free(frame);
}

TEST_P(PendingIcrcTest, AFrameWithoutTheMarkKeepsItsBytes) {
  rte_mbuf* const frame = Marked();
  pending_.Settle(*frame);
  uint8_t& last = rte_pktmbuf_mtod(frame, uint8_t*)[whole_.size() - 1];
  last ^= 1;
  const uint8_t wrong = last;
  pending_.Fill(*frame);
  EXPECT_EQ(last, wrong);
  rte_pktmbuf_free(frame);
}

TEST_P(PendingIcrcTest, AFrameFromThePoolHasNoMark) {
  rte_mbuf* const marked = Marked();
  rte_pktmbuf_free(marked);
  std::vector<rte_mbuf*> all(kFrames);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool(), all.data(), kFrames), 0);
  for (rte_mbuf* frame : all) EXPECT_FALSE(pending_.IsSet(*frame));
  rte_pktmbuf_free_bulk(all.data(), kFrames);
}

INSTANTIATE_TEST_SUITE_P(Addresses, PendingIcrcTest, testing::Bool(),
                         [](const auto& its) { return its.param ? "ipv6" : "ipv4"; });

class FrameQueueTest : public FramePoolTest {
 protected:
  std::vector<rte_mbuf*> Frames(uint32_t count) {
    std::vector<rte_mbuf*> frames;
    for (uint32_t i = 0; i < count; ++i) frames.push_back(Frame(i));
    return frames;
  }
};

TEST_F(FrameQueueTest, ItHoldsExactlyItsDepthAndKeepsTheOrder) {
  FrameQueue queue(5);
  std::vector<rte_mbuf*> frames = Frames(7);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Room(100), 5u);
  EXPECT_EQ(queue.Put(frames.data(), 7), 5);
  EXPECT_EQ(queue.Put(frames.data() + 5, 2), 0);
  EXPECT_FALSE(queue.empty());
  rte_mbuf* taken[8];
  ASSERT_EQ(queue.Take(taken, 3), 3);
  EXPECT_EQ(queue.Room(100), 3u);
  EXPECT_EQ(queue.Put(frames.data() + 5, 2), 2);
  ASSERT_EQ(queue.Take(taken + 3, 5), 4);
  EXPECT_EQ(queue.Take(taken, 1), 0);
  for (uint32_t i = 0; i < 7; ++i) {
    EXPECT_EQ(NumberOf(taken[i]), i);
    rte_pktmbuf_free(taken[i]);
  }
}

TEST_F(FrameQueueTest, WhatIsLeftInItGoesWithIt) {
  FrameQueue queue(8);
  std::vector<rte_mbuf*> frames = Frames(3);
  EXPECT_EQ(queue.Put(frames.data(), 3), 3);
}

TEST_F(FrameQueueTest, TwoThreadsLoseAndSwapNothing) {
  constexpr uint32_t kCount = 200'000;
  FrameQueue queue(64);
  std::thread producer([&] {
    for (uint32_t i = 0; i < kCount; ++i) {
      rte_mbuf* frame = Frame(i);
      while (queue.Put(&frame, 1) == 0) std::this_thread::yield();
    }
  });
  for (uint32_t expected = 0; expected < kCount;) {
    rte_mbuf* frames[32];
    const uint16_t count = queue.Take(frames, 32);
    if (count == 0) std::this_thread::yield();
    for (uint16_t i = 0; i < count; ++i) {
      ASSERT_EQ(NumberOf(frames[i]), expected++);
      rte_pktmbuf_free(frames[i]);
    }
  }
  producer.join();
}

}  // namespace
}  // namespace uroce::drivers
