// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/completion_publisher.h"

#include "tests/datapath/worker/parts.h"

namespace uroce::datapath {
namespace {

/// The rings of the endpoint's queues: sends have bit 1 of the word, receives bit 2.
class PollerWakesTest : public PartsTest {
 protected:
  static constexpr uint32_t kOfSends = 1, kOfReceives = 2;

  PollerWakesTest() { wakes_.Reserve(2); }
  uint32_t& word() { return endpoint_.pollers->value; }
  CompletionRing& sends() { return *endpoint_.qp->config().send_ring; }
  CompletionRing& receives() { return *endpoint_.qp->config().receive_ring; }
  void AddBoth() {
    word() = kOfSends | kOfReceives;
    wakes_.Add(sends(), kNow);
    wakes_.Add(receives(), kNow + Nanos(1));
  }

  static constexpr Nanos kNow{1'000'000};
  PollerWakes wakes_;
  Endpoint& endpoint_ = AddEndpoint(AddProgram());
};

TEST_F(PollerWakesTest, ATurnWithoutWorkWakes) {
  AddBoth();
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), 0u);
}

TEST_F(PollerWakesTest, ABusyWorkerWakesAfterAWhile) {
  AddBoth();
  wakes_.AfterTurn(/*busy=*/true, kNow + PollerWakes::kLongestDelay - Nanos(1));
  EXPECT_EQ(word(), kOfSends | kOfReceives);
  wakes_.AfterTurn(/*busy=*/true, kNow + PollerWakes::kLongestDelay);
  EXPECT_EQ(word(), 0u);
}

TEST_F(PollerWakesTest, ThreadsOfOtherQueuesSleepOn) {
  word() = kOfSends | kOfReceives;
  wakes_.Add(sends(), kNow);
  wakes_.Add(sends(), kNow);
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), kOfReceives);
  wakes_.Add(receives(), kNow);
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), 0u);
}

TEST_F(PollerWakesTest, NobodyIsWokenForAQueueThatHasGone) {
  AddBoth();
  wakes_.Remove(&sends());
  EXPECT_FALSE(sends().is_waking());
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), kOfSends);
}

}  // namespace
}  // namespace uroce::datapath
