// SPDX-License-Identifier: Apache-2.0
// Many armed completion queues, and a program that does not read its channel.
#include "pipeline/datapath/worker/completion_publisher.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "pipeline/datapath/queue/completion_queue.h"
#include "tests/datapath/queue/record_stream.h"

namespace uroce::datapath {
namespace {

constexpr size_t kQueues = 200;
constexpr uint32_t kRingDepth = 4;

/// A completion queue with one entry, whose record found a full channel.
struct Waiting {
  explicit Waiting(int channel_fd)
      : queue({.page = &page, .channel = {channel_fd}}),
        ring(queue.AddRing(0,
                           {.page = &ring_page, .entries = entries.data(), .depth = kRingDepth})) {
    page.arm.value = UROCE_CQ_ARMED_NEXT;
    EXPECT_EQ(ring.Publish({}, 0, Qpn()), PublishResult::kOk);
    ring.FinishBurst();
    EXPECT_TRUE(ring.has_pending_records());
  }

  uroce_cq_page page{};
  uroce_cq_ring_page ring_page{};
  std::array<uroce_cqe, kRingDepth> entries{};
  CompletionQueue queue;
  CompletionRing& ring;
};

class RecordRetriesTest : public testing::Test {
 protected:
  RecordRetriesTest() {
    channel_.Fill();
    for (size_t i = 0; i < kQueues; ++i) {
      waiting_.push_back(std::make_unique<Waiting>(channel_.writer()));
      retries_.Want(waiting_.back()->ring, now_);
    }
  }
  uint32_t Written() const {
    uint32_t written = 0;
    for (const auto& each : waiting_) written += each->ring.channel_records();
    return written;
  }

  RecordStream channel_;
  Nanos now_{1'000'000'000};
  std::vector<std::unique_ptr<Waiting>> waiting_;
  RecordRetries retries_;
};

TEST_F(RecordRetriesTest, APassWritesSomeAndTheOthersFollow) {
  channel_.Drain();
  now_ = retries_.next();
  retries_.Pass(now_);
  EXPECT_EQ(Written(), uint32_t{RecordRetries::kMaxWrites});
  while (retries_.next() != kNever) retries_.Pass(retries_.next());
  EXPECT_EQ(Written(), kQueues);
}

// Passes go on while the channel is full, and try each queue less and less often.
TEST_F(RecordRetriesTest, AChannelThatStaysFullIsTriedEverMoreRarely) {
  constexpr Nanos kAll = RecordRetries::kLongest + RecordRetries::kLongest;
  const Nanos end = now_ + kAll * 4;
  while (now_ < end) {
    now_ = retries_.next();
    retries_.Pass(now_);
  }
  EXPECT_EQ(Written(), 0u);
  channel_.Drain();
  retries_.Pass(now_ + Nanos(1));
  EXPECT_LT(Written(), uint32_t{RecordRetries::kMaxWrites}) << "most wait for their time";
  while (retries_.next() != kNever && retries_.next() < now_ + kAll) retries_.Pass(retries_.next());
  EXPECT_EQ(Written(), kQueues);
}

TEST_F(RecordRetriesTest, WhoEndsIsForgotten) {
  channel_.Drain();
  for (const auto& each : waiting_) retries_.Remove({.ring = &each->ring});
  retries_.Pass(retries_.next());
  EXPECT_EQ(Written(), 0u);
  EXPECT_EQ(retries_.next(), kNever);
}

}  // namespace
}  // namespace uroce::datapath
