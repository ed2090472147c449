// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/frame_queue.h"

#include <thread>
#include <vector>

#include "tests/drivers/frame_pool.h"

namespace uroce::drivers {
namespace {

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
