// SPDX-License-Identifier: Apache-2.0
// Taking from a shared receive queue: order, room, the limit event, another ring, hostile indices.
#include "pipeline/datapath/shared_receive_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <vector>

namespace uroce::datapath {
namespace {

class SharedReceiveQueueTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 8;
  static constexpr uint32_t kSlotBytes = rings::ReceiveSlotBytes(2);

  ~SharedReceiveQueueTest() override {
    close(pipe_[0]);
    close(pipe_[1]);
  }

  SharedReceiveQueueConfig Config() {
    return {.pd = 5,
            .page = page_.get(),
            .layout = {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes},
            .max_sge = 2,
            .user_handle = 77,
            .async_fd = pipe_[1]};
  }
  void Post(uint64_t wr_id) {
    rings::WriteReceiveHeader(producer_.Slot(producer_.index()), wr_id, 0);
    producer_.Advance();
    producer_.Publish();
  }
  /// wr_id of the next entry, 0 for none.
  uint64_t Take() {
    SharedReceiveQueue::Entry entry;
    return queue_.Take(entry) == PullResult::kMore ? entry.wqe.header.wr_id : 0;
  }
  int Events() {
    int count = 0;
    for (uroce_async_record record; read(pipe_[0], &record, sizeof(record)) > 0; ++count) {
      EXPECT_EQ(record.element, 77u);
      EXPECT_EQ(record.event_type, 15u);
    }
    return count;
  }

  static std::array<int, 2> MakePipe() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(pipe2(ends.data(), O_NONBLOCK), 0);
    return ends;
  }

  const std::array<int, 2> pipe_ = MakePipe();
  std::unique_ptr<uroce_srq_page> page_ = std::make_unique<uroce_srq_page>();
  std::vector<uint8_t> slots_ = std::vector<uint8_t>(size_t{kDepth} * kSlotBytes);
  rings::WorkQueueProducer producer_{
      {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes}, &page_->produced};
  SharedReceiveQueue queue_{Config()};
};

TEST_F(SharedReceiveQueueTest, EntriesComeInOrderAndFreeTheirSlots) {
  for (uint64_t id = 1; id <= 20; ++id) {
    Post(id);
    EXPECT_EQ(Take(), id);
    EXPECT_EQ(page_->consumed.value, id);
  }
  EXPECT_EQ(Take(), 0u);
}

TEST_F(SharedReceiveQueueTest, TheLimitEventComesOnceWhenFewerAreLeft) {
  for (uint64_t id = 1; id <= 4; ++id) Post(id);
  queue_.SetLimit(3);
  EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(Events(), 0) << "three are left";
  EXPECT_EQ(Take(), 2u);
  EXPECT_EQ(Events(), 1);
  EXPECT_EQ(queue_.limit(), 0u);
  EXPECT_EQ(Take(), 3u);
  EXPECT_EQ(Events(), 0);
  EXPECT_EQ(queue_.async_records(), 1u);
}

TEST_F(SharedReceiveQueueTest, ALimitThatIsReachedAlreadyIsSaidAtOnce) {
  Post(1);
  queue_.SetLimit(2);
  EXPECT_EQ(Events(), 1);
}

TEST_F(SharedReceiveQueueTest, AFullPipeHasTheEventLater) {
  const std::vector<uint8_t> bytes(1 << 20);
  EXPECT_GT(write(pipe_[1], bytes.data(), bytes.size()), 0);
  queue_.SetLimit(2);
  EXPECT_TRUE(queue_.has_pending_record());
  std::vector<uint8_t> drained(1 << 20);
  EXPECT_GT(read(pipe_[0], drained.data(), drained.size()), 0);
  queue_.RetryRecord();
  EXPECT_FALSE(queue_.has_pending_record());
  EXPECT_EQ(Events(), 1);
}

TEST_F(SharedReceiveQueueTest, WhatWaitsMovesToAnotherRing) {
  for (uint64_t id = 1; id <= 6; ++id) Post(id);
  EXPECT_EQ(Take(), 1u);
  uroce_srq_page page{};
  std::vector<uint8_t> slots(size_t{16} * kSlotBytes);
  EXPECT_FALSE(queue_.MoveTo(&page, {.slots = slots.data(), .depth = 4, .slot_bytes = kSlotBytes}));
  ASSERT_TRUE(queue_.MoveTo(&page, {.slots = slots.data(), .depth = 16, .slot_bytes = kSlotBytes}));
  EXPECT_EQ(page.produced.value, 5u);
  for (uint64_t id = 2; id <= 6; ++id) EXPECT_EQ(Take(), id);
  EXPECT_EQ(Take(), 0u);
  EXPECT_EQ(page.consumed.value, 5u);
}

TEST_F(SharedReceiveQueueTest, AnImpossibleIndexIsFound) {
  page_->produced.value = kDepth + 1;
  SharedReceiveQueue::Entry entry;
  EXPECT_EQ(queue_.Take(entry), PullResult::kCorrupt);
  queue_.SetLimit(3);
  EXPECT_EQ(Events(), 0);
  uroce_srq_page page{};
  EXPECT_FALSE(queue_.MoveTo(&page, Config().layout));
}

}  // namespace
}  // namespace uroce::datapath
