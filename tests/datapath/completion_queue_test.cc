// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/completion_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace uroce::datapath {
namespace {

constexpr uint32_t kDepth = 4;
constexpr uint64_t kUserHandle = 0xc0ffee;

class CompletionQueueTest : public testing::Test {
 protected:
  CompletionQueueTest() {
    EXPECT_EQ(pipe2(channel_, O_NONBLOCK), 0);
    EXPECT_EQ(pipe2(async_, O_NONBLOCK), 0);
  }
  ~CompletionQueueTest() override {
    for (const int fd : {channel_[0], channel_[1], async_[0], async_[1]}) close(fd);
  }
  CompletionQueueConfig Config() {
    return {.page = &page_,
            .entries = entries_.data(),
            .depth = kDepth,
            .user_handle = kUserHandle,
            .channel_fd = channel_[1],
            .async_fd = async_[1]};
  }
  bool ReadChannel() {
    uint64_t record = 0;
    const bool got = read(channel_[0], &record, sizeof(record)) == sizeof(record);
    EXPECT_EQ(record, got ? kUserHandle : 0);
    return got;
  }
  void FillChannel() {
    const uint64_t other = 1;
    while (write(channel_[1], &other, sizeof(other)) > 0) {
    }
  }

  uroce_cq_page page_{};
  std::array<uroce_cqe, kDepth> entries_{};
  int channel_[2];
  int async_[2];
};

TEST_F(CompletionQueueTest, EntryHoldsTheCompletion) {
  CompletionQueue queue(Config());
  transport::Completion completion;
  completion.wr_id = 77;
  completion.slot = 5;
  completion.is_receive = true;
  completion.has_immediate = true;
  completion.immediate_or_rkey = 0x04030201;
  completion.opcode = transport::WcOpcode::kReceiveWriteWithImm;
  completion.length_bytes = 1000;
  ASSERT_TRUE(queue.Publish(completion, 9, Qpn(0x123)));
  const uroce_cqe& cqe = entries_[0];
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

TEST_F(CompletionQueueTest, OneRecordPerArming) {
  CompletionQueue queue(Config());
  ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_FALSE(ReadChannel()) << "not armed";
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_EQ(page_.arm.value, UROCE_CQ_DISARMED);
  ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_FALSE(ReadChannel());
  EXPECT_EQ(queue.channel_records(), 1u);
}

TEST_F(CompletionQueueTest, SolicitedArmingWaitsForSolicitedOrFailed) {
  CompletionQueue queue(Config());
  page_.arm.value = UROCE_CQ_ARMED_SOLICITED;
  ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_FALSE(ReadChannel());
  transport::Completion failed;
  failed.status = transport::WcStatus::kWrFlushErr;
  ASSERT_TRUE(queue.Publish(failed, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  page_.arm.value = UROCE_CQ_ARMED_SOLICITED;
  transport::Completion solicited;
  solicited.solicited = true;
  ASSERT_TRUE(queue.Publish(solicited, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionQueueTest, FullPipeLeavesTheRecordPending) {
  CompletionQueue queue(Config());
  FillChannel();
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  queue.FinishBurst();
  EXPECT_TRUE(queue.has_pending_records());
  EXPECT_EQ(queue.channel_records(), 0u);
  std::array<uint8_t, 1 << 16> drain;
  ASSERT_GT(read(channel_[0], drain.data(), drain.size()), 0);
  queue.RetryRecords();
  EXPECT_FALSE(queue.has_pending_records());
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionQueueTest, OverflowIsReportedOnceAndForGood) {
  CompletionQueue queue(Config());
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  EXPECT_EQ(page_.error.value, 0u);
  EXPECT_FALSE(queue.Publish({}, 0, Qpn(2)));
  EXPECT_NE(page_.error.value, 0u);
  page_.consumed.value = kDepth;
  EXPECT_FALSE(queue.Publish({}, 0, Qpn(2))) << "room now does not bring back what was lost";
  uroce_async_record record;
  ASSERT_EQ(read(async_[0], &record, sizeof(record)), static_cast<ssize_t>(sizeof(record)));
  EXPECT_EQ(record.element, kUserHandle);
  EXPECT_EQ(record.event_type, 0u) << "IBV_EVENT_CQ_ERR";
  EXPECT_LT(read(async_[0], &record, sizeof(record)), 0);
  EXPECT_EQ(queue.async_records(), 1u);
}

TEST_F(CompletionQueueTest, ImpossibleConsumedIndexIsAnOverflow) {
  CompletionQueue queue(Config());
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_TRUE(queue.Publish({}, 0, Qpn(2)));
  page_.consumed.value = kDepth + 1;
  EXPECT_FALSE(queue.Publish({}, 0, Qpn(2)));
  EXPECT_TRUE(queue.overflowed());
}

}  // namespace
}  // namespace uroce::datapath
