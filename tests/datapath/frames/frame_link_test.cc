// SPDX-License-Identifier: Apache-2.0
// The ring of frames between two threads.
#include "pipeline/datapath/frames/frame_link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace uroce::datapath {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Take(FrameRing& ring) {
  const auto frame = ring.Front();
  Bytes copy(frame.begin(), frame.end());
  if (!frame.empty()) ring.Pop();
  return copy;
}

TEST(FrameRingTest, FramesComeInOrderAndWhole) {
  FrameRing ring(4, 16);
  for (uint8_t i = 0; i < 100; ++i) {
    EXPECT_EQ(ring.Put(Bytes(1 + i % 16, i)), PutResult::kPut);
    EXPECT_EQ(ring.Put(Bytes(2, i)), PutResult::kPut);
    EXPECT_EQ(Take(ring), Bytes(1 + i % 16, i));
    EXPECT_EQ(Take(ring), Bytes(2, i));
  }
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.Front().empty());
}

TEST(FrameRingTest, AFullRingTakesNoMoreUntilOneIsPopped) {
  FrameRing ring(2, 16);
  EXPECT_EQ(ring.Put(Bytes(1, 1)), PutResult::kPut);
  EXPECT_EQ(ring.Put(Bytes(1, 2)), PutResult::kPut);
  EXPECT_EQ(ring.Put(Bytes(1, 3)), PutResult::kFull);
  EXPECT_TRUE(ring.Reserve().empty());
  ring.Pop();
  EXPECT_EQ(ring.Put(Bytes(1, 3)), PutResult::kPut);
}

TEST(FrameRingTest, AFrameLongerThanASlotIsRefused) {
  FrameRing ring(2, 16);
  EXPECT_EQ(ring.Put(Bytes(17, 1)), PutResult::kTooLong);
  EXPECT_TRUE(ring.empty());
}

TEST(FrameRingTest, ASlotMayBeFilledInPlace) {
  FrameRing ring(2, 16);
  const auto slot = ring.Reserve();
  ASSERT_EQ(slot.size(), 16u);
  std::memset(slot.data(), 7, 3);
  EXPECT_TRUE(ring.empty());
  ring.Commit(3);
  EXPECT_EQ(Take(ring), Bytes(3, 7));
}

TEST(FrameRingTest, TwoThreadsLoseAndTearNothing) {
  constexpr uint32_t kFrames = 20'000;
  FrameRing ring(8, 64);
  std::thread producer([&ring] {
    for (uint32_t i = 0; i < kFrames; ++i) {
      const Bytes frame(1 + i % 64, static_cast<uint8_t>(i));
      while (ring.Put(frame) == PutResult::kFull) std::this_thread::yield();
    }
  });
  for (uint32_t i = 0; i < kFrames;) {
    const Bytes frame = Take(ring);
    if (frame.empty()) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(frame, Bytes(1 + i % 64, static_cast<uint8_t>(i)));
    ++i;
  }
  producer.join();
}

}  // namespace
}  // namespace uroce::datapath
