// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/completion_publisher.h"

#include <set>

#include "tests/datapath/worker/parts/parts.h"

namespace uroce::datapath {
namespace {

/// Queue pairs in error: what is posted to them completes at once.
class CompletionPublisherTest : public PartsTest, public OverflowSink {
 protected:
  void OnOverflow(CompletionQueue&) override { ++overflows_; }

  Endpoint& AddFailed() {
    Endpoint& endpoint = AddEndpoint(AddProgram());
    transport::QueuePairAttributes attributes;
    attributes.path_mtu_bytes = 1024;
    endpoint.qp->core().Modify(transport::QpState::kErr, attributes);
    return endpoint;
  }
  /// Has `count` works complete.
  void Complete(Endpoint& endpoint, uint32_t count) const {
    for (uint32_t i = 0; i < count; ++i) endpoint.PostSend({.wr_id = i});
    uint32_t left = count;
    static_cast<void>(endpoint.qp->works().PullSends(left, time_.now(),
                                                     endpoint.qp->port().histograms().sent_bytes));
    ASSERT_EQ(left, 0u);
  }

  CompletionPublisher completions_{this, time_};
  int overflows_ = 0;
};

TEST_F(CompletionPublisherTest, EachCompletionIsSeenByTheProgram) {
  Endpoint& endpoint = AddFailed();
  Complete(endpoint, 3);
  EXPECT_TRUE(completions_.PublishAll(*endpoint.qp));
  completions_.FinishBursts();
  uroce_cqe cqe;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(endpoint.PollSend(cqe));
    EXPECT_EQ(cqe.wr_id, i);
  }
  EXPECT_FALSE(endpoint.PollSend(cqe));
}

TEST_F(CompletionPublisherTest, WhoSleepsForACompletionIsWoken) {
  Endpoint& endpoint = AddFailed();
  endpoint.pollers->value = 0b111;
  Complete(endpoint, 1);
  EXPECT_TRUE(completions_.PublishAll(*endpoint.qp));
  completions_.FinishBursts();
  completions_.poller_wakes().AfterTurn(/*busy=*/false, time_.now());
  EXPECT_EQ(endpoint.pollers->value, 0b110u) << "the bit of the queue of sends";
}

TEST_F(CompletionPublisherTest, WhoAnnouncesASleepAfterTheBurstHasSeenIt) {
  Endpoint& endpoint = AddFailed();
  Complete(endpoint, 1);
  EXPECT_TRUE(completions_.PublishAll(*endpoint.qp));
  completions_.FinishBursts();
  endpoint.pollers->value = 1;
  completions_.poller_wakes().AfterTurn(/*busy=*/false, time_.now());
  EXPECT_EQ(endpoint.pollers->value, 1u);
}

TEST_F(CompletionPublisherTest, AnOverflowFailsEachUserOnce) {
  Endpoint& endpoint = AddFailed();
  uint32_t published = 0;
  bool is_well = true;
  while (is_well && published <= endpoint.limits.cq_depth) {
    Complete(endpoint, 1);
    is_well = completions_.PublishAll(*endpoint.qp);
    ++published;
  }
  EXPECT_FALSE(is_well);
  EXPECT_EQ(published, endpoint.limits.cq_depth + 1);
  EXPECT_EQ(overflows_, 1);
  EXPECT_EQ(device_.Sum(&DeviceCounters::cq_overflow), 1u);
  EXPECT_TRUE(completions_.any_to_fail());
  EXPECT_EQ(completions_.NextToFail(), endpoint.qp.get());
  EXPECT_EQ(completions_.NextToFail(), nullptr);
  EXPECT_FALSE(completions_.any_to_fail());
  Complete(endpoint, 1);
  EXPECT_FALSE(completions_.PublishAll(*endpoint.qp)) << "the ring stays in error";
  EXPECT_EQ(overflows_, 1);
}

TEST_F(CompletionPublisherTest, ARingThatGoesFailsNoQueuePair) {
  Endpoint& endpoint = AddFailed();
  CompletionRing* const ring = endpoint.qp->config().send_ring;
  completions_.FailUsers(*ring);
  completions_.Remove(ring);
  EXPECT_EQ(completions_.NextToFail(), nullptr);
}

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

TEST_F(PollerWakesTest, NoThreadIsWokenForAQueueThatHasGone) {
  AddBoth();
  wakes_.Remove(&sends());
  EXPECT_FALSE(sends().is_waking());
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), kOfSends);
}

}  // namespace
}  // namespace uroce::datapath
