// SPDX-License-Identifier: Apache-2.0
// The word of threads that sleep until a completion comes.
#include "pipeline/shm/rings/completion_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/shm/rings/one_by_one.h"

namespace uroce::rings {
namespace {

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
