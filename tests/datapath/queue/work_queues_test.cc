// SPDX-License-Identifier: Apache-2.0
// Taking from a shared receive queue: order, room, the limit event, another ring, hostile indices.
#include "pipeline/datapath/queue/work_queues.h"
#include "tests/datapath/queue/record_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace uroce::datapath {
namespace {

class SharedReceiveQueueTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 8;
  static constexpr uint32_t kSlotBytes = rings::ReceiveSlotBytes(2);

  SharedReceiveQueueConfig Config() {
    return {.pd = 5,
            .page = page_.get(),
            .layout = {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes},
            .max_sge = 2,
            .user_handle = 77,
            .async = {events_.writer()}};
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
    for (; const std::optional<uroce_event_record> record = events_.Read(); ++count) {
      EXPECT_EQ(record->element, 77u);
      EXPECT_EQ(record->event_type, 15u);
    }
    return count;
  }

  RecordStream events_;
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

TEST_F(SharedReceiveQueueTest, AFullSocketHasTheEventLater) {
  events_.Fill();
  queue_.SetLimit(2);
  EXPECT_TRUE(queue_.has_pending_record());
  events_.Drain();
  queue_.RetryRecord();
  EXPECT_FALSE(queue_.has_pending_record());
  EXPECT_EQ(Events(), 1);
}

TEST_F(SharedReceiveQueueTest, WhatWaitsMovesToAnotherRing) {
  for (uint64_t id = 1; id <= 6; ++id) Post(id);
  EXPECT_EQ(Take(), 1u);
  uroce_srq_page page{};
  std::vector<uint8_t> slots(size_t{16} * kSlotBytes);
  const rings::WorkQueueLayout layout = {
      .slots = slots.data(), .depth = 16, .slot_bytes = kSlotBytes};
  const auto waiting = queue_.LookForWaiting();
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->first, 1u);
  EXPECT_EQ(waiting->count, 5u);
  queue_.CopyTo(layout, *waiting);
  EXPECT_EQ(Take(), 2u) << "messages come while entries are copied";
  queue_.MoveTo(&page, layout, *waiting);
  EXPECT_EQ(page.produced.value, 5u);
  EXPECT_EQ(page.consumed.value, 1u);
  EXPECT_EQ(queue_.waiting(), 4u);
  for (uint64_t id = 3; id <= 6; ++id) EXPECT_EQ(Take(), id);
  EXPECT_EQ(Take(), 0u);
  EXPECT_EQ(page.consumed.value, 5u);
}

TEST_F(SharedReceiveQueueTest, AnImpossibleIndexIsFound) {
  page_->produced.value = kDepth + 1;
  SharedReceiveQueue::Entry entry;
  EXPECT_EQ(queue_.Take(entry), PullResult::kCorrupt);
  queue_.SetLimit(3);
  EXPECT_EQ(Events(), 0);
  EXPECT_FALSE(queue_.LookForWaiting());
}

}  // namespace
}  // namespace uroce::datapath
