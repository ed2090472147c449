// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/datapath/queue/record_stream.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kDepth = 4;
constexpr uint64_t kUserHandle = 0xc0ffee;

class CompletionRingTest : public testing::Test {
 protected:
  CompletionQueueConfig Config() {
    return {.page = &page_,
            .user_handle = kUserHandle,
            .channel = {channel_.writer()},
            .async = {async_.writer()}};
  }
  /// The program's memory of one worker's ring.
  struct Memory {
    uroce_cq_ring_page page{};
    std::array<uroce_cqe, kDepth> entries{};
    rings::CqeRingLayout layout() { return {&page, entries.data(), kDepth}; }
  };
  static PublishResult Publish(CompletionRing& ring) { return ring.Publish({}, 0, Qpn(2)); }
  bool ReadChannel() {
    const std::optional<uroce_event_record> record = channel_.Read();
    if (!record) return false;
    EXPECT_EQ(record->element, kUserHandle);
    EXPECT_EQ(record->event_type, UROCE_EVENT_COMPLETION);
    return true;
  }

  uroce_cq_page page_{};
  std::array<Memory, 2> memory_;
  RecordStream channel_;
  RecordStream async_;
  CompletionQueue queue_{Config()};
  CompletionRing& ring_ = queue_.AddRing(0, memory_[0].layout());
};

TEST_F(CompletionRingTest, EntryHoldsTheCompletion) {
  transport::Completion completion;
  completion.wr_id = 77;
  completion.slot = 5;
  completion.is_receive = true;
  completion.has_immediate = true;
  completion.immediate_or_rkey = 0x04030201;
  completion.opcode = transport::WcOpcode::kReceiveWriteWithImm;
  completion.length_bytes = 1000;
  ASSERT_EQ(ring_.Publish(completion, 9, Qpn(0x123)), PublishResult::kOk);
  const uroce_cqe& cqe = memory_[0].entries[0];
  EXPECT_EQ(cqe.generation, 1u);
  EXPECT_EQ(cqe.wr_id, 77u);
  EXPECT_EQ(cqe.qp_handle, 9u);
  EXPECT_EQ(cqe.qp_num, 0x123u);
  EXPECT_EQ(cqe.wqe_index, 5u);
  EXPECT_EQ(cqe.byte_len, 1000u);
  EXPECT_EQ(cqe.imm_or_rkey, 0x04030201u);
  EXPECT_EQ(cqe.opcode, 129);
  EXPECT_EQ(cqe.wc_flags, 2) << "IBV_WC_WITH_IMM";
  EXPECT_EQ(cqe.flags, UROCE_CQE_RECEIVE);
}

TEST_F(CompletionRingTest, OneRecordPerArming) {
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel()) << "not armed";
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_EQ(page_.arm.value, UROCE_CQ_DISARMED);
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel());
  EXPECT_EQ(ring_.channel_records(), 1u);
}

TEST_F(CompletionRingTest, SolicitedArmingWaitsForSolicitedOrFailed) {
  page_.arm.value = UROCE_CQ_ARMED_SOLICITED;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel());
  transport::Completion failed;
  failed.status = transport::WcStatus::kWrFlushErr;
  ASSERT_EQ(ring_.Publish(failed, 0, Qpn(2)), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  page_.arm.value = UROCE_CQ_ARMED_SOLICITED;
  transport::Completion solicited;
  solicited.solicited = true;
  ASSERT_EQ(ring_.Publish(solicited, 0, Qpn(2)), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, AModeratedQueueMakesItsRecordByTheCount) {
  queue_.set_moderation({.count = 3, .period_us = UINT16_MAX});
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Publish(ring_), PublishResult::kOk);
    ring_.FinishBurst();
    EXPECT_FALSE(ReadChannel());
    EXPECT_TRUE(ring_.has_pending_records()) << "the worker comes back at the end of the period";
  }
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_FALSE(ring_.has_pending_records());
  EXPECT_EQ(ring_.channel_records(), 1u);
}

TEST_F(CompletionRingTest, AModeratedQueueMakesItsRecordByTheEndOfThePeriod) {
  queue_.set_moderation({.count = 3, .period_us = 1});
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  while (ring_.has_pending_records()) {
    EXPECT_LE(ring_.RetryAfter(), Nanos(1000));
    ring_.RetryRecords();
  }
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, CompletionsBeforeTheArmingCountForNothing) {
  queue_.set_moderation({.count = 2, .period_us = UINT16_MAX});
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ring_.has_pending_records());
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel());
}

TEST_F(CompletionRingTest, TheEndOfModerationReleasesTheRecord) {
  queue_.set_moderation({.count = 3, .period_us = UINT16_MAX});
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  queue_.set_moderation({});
  ring_.RetryRecords();
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, FullSocketLeavesTheRecordPending) {
  channel_.Fill();
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ring_.has_pending_records());
  EXPECT_EQ(ring_.channel_records(), 0u);
  channel_.Drain();
  ring_.RetryRecords();
  EXPECT_FALSE(ring_.has_pending_records());
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, OverflowIsReportedOnceAndForGood) {
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  EXPECT_EQ(page_.error.value, 0u);
  EXPECT_EQ(Publish(ring_), PublishResult::kOverflow);
  EXPECT_NE(page_.error.value, 0u);
  memory_[0].page.consumed.value = kDepth;
  EXPECT_EQ(Publish(ring_), PublishResult::kInError)
      << "room now does not bring back what was lost";
  const std::optional<uroce_event_record> record = async_.Read();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->element, kUserHandle);
  EXPECT_EQ(record->event_type, 0u) << "IBV_EVENT_CQ_ERR";
  EXPECT_FALSE(async_.Read());
  EXPECT_EQ(ring_.async_records(), 1u);
}

TEST_F(CompletionRingTest, ImpossibleConsumedIndexIsAnOverflow) {
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  memory_[0].page.consumed.value = kDepth + 1;
  EXPECT_EQ(Publish(ring_), PublishResult::kOverflow);
  EXPECT_TRUE(queue_.overflowed());
}

// Two workers publish in the same moment: whoever takes the arming writes the one record.
TEST_F(CompletionRingTest, OneRecordPerArmingOverAllRings) {
  CompletionRing& other = queue_.AddRing(1, memory_[1].layout());
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ASSERT_EQ(Publish(other), PublishResult::kOk);
  other.FinishBurst();
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_FALSE(ReadChannel());
  EXPECT_EQ(other.channel_records(), 1u);
  EXPECT_EQ(ring_.channel_records(), 0u);
}

TEST_F(CompletionRingTest, OneFullRingPutsTheWholeQueueInError) {
  CompletionRing& other = queue_.AddRing(1, memory_[1].layout());
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(Publish(other), PublishResult::kOk);
  ASSERT_EQ(Publish(ring_), PublishResult::kOk) << "each ring has the full depth";
  EXPECT_EQ(Publish(other), PublishResult::kOverflow);
  EXPECT_EQ(Publish(ring_), PublishResult::kInError) << "though there is room";
  EXPECT_EQ(other.async_records(), 1u);
  EXPECT_EQ(ring_.async_records(), 0u) << "one event for the queue";
}

TEST_F(CompletionRingTest, AMovedRingGoesOnBehindWhatWaits) {
  for (uint32_t i = 0; i < 3; ++i) {
    transport::Completion completion;
    completion.wr_id = i;
    ASSERT_EQ(ring_.Publish(completion, 0, Qpn(2)), PublishResult::kOk);
  }
  memory_[0].page.consumed.value = 1;
  EXPECT_EQ(ring_.waiting(), 2u);
  const auto moved = ring_.MoveTo(memory_[1].layout(), ring_.waiting());
  transport::Completion completion;
  completion.wr_id = 3;
  ASSERT_EQ(ring_.Publish(completion, 0, Qpn(2)), PublishResult::kOk);
  rings::CopyWaiting(moved.from, moved.produced - moved.waiting, 0, moved.waiting,
                     memory_[1].layout());
  rings::CqeConsumer consumer(memory_[1].layout());
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_NE(consumer.Peek(), nullptr);
    EXPECT_EQ(consumer.Peek()->wr_id, i);
    consumer.Advance();
  }
  EXPECT_EQ(consumer.Peek(), nullptr);
}

}  // namespace
}  // namespace uroce::datapath
