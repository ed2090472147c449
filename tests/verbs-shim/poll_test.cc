// SPDX-License-Identifier: Apache-2.0
// ibv_poll_cq, ibv_cq_ex and the fields of work completions.
#include <thread>

#include "pipeline/shm/rings/completion_queue.h"
#include "tests/verbs-shim/shim_fixture.h"
#include "tests/verbs-shim/yields.h"

namespace uroce::shim_test {
namespace {

class PollTest : public ShimTest {};

TEST_F(PollTest, AnEmptyQueueGivesZeroHoweverOftenItIsAsked) {
  ibv_wc wc;
  errno = 0;
  for (int i = 0; i < 300; ++i) ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  EXPECT_EQ(errno, 0);
}

// A new thread has not yet learned that others want its core.
TEST_F(PollTest, SixteenEmptyPollsInARowYieldAndACompletionRestartsTheCount) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  std::thread([this] {
    ibv_wc wc;
    g_yields = 0;
    for (int i = 0; i < 15; ++i) (void)ibv_poll_cq(cq_, 1, &wc);
    EXPECT_EQ(g_yields, 0);
    (void)ibv_poll_cq(cq_, 1, &wc);
    EXPECT_EQ(g_yields, 1);
    Complete(0, 1);
    ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
    for (int i = 0; i < 15; ++i) (void)ibv_poll_cq(cq_, 1, &wc);
    EXPECT_EQ(g_yields, 1);
  }).join();
}

// A program that reads "disconnected" after an empty poll destroys its queue pair, and loses what
// completed before.
TEST_F(PollTest, APollThatYieldsFindsWhatCompletedMeanwhile) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  std::thread([this] {
    ibv_wc wc = {};
    for (int i = 0; i < 15; ++i) ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    g_others = [this] { Complete(0, 1); };
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
    g_others = nullptr;
    EXPECT_EQ(wc.wr_id, 1u);
  }).join();
}

TEST_F(PollTest, APollOfNoneTakesNone) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  Complete(0, 1);
  EXPECT_EQ(ibv_poll_cq(cq_, 0, nullptr), 0);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{1});
}

TEST_F(PollTest, CompletionsComeInOrderUpToTheCount) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  ASSERT_EQ(Post(Write(2, nullptr)), 0);
  ASSERT_EQ(Post(Write(3, nullptr)), 0);
  for (uint32_t i = 0; i < 3; ++i) Complete(i, i + 1);
  ibv_wc wcs[4];
  ASSERT_EQ(ibv_poll_cq(cq_, 2, wcs), 2);
  EXPECT_EQ(wcs[0].wr_id, 1u);
  EXPECT_EQ(wcs[1].wr_id, 2u);
  ASSERT_EQ(ibv_poll_cq(cq_, 4, wcs), 1);
  EXPECT_EQ(wcs[0].wr_id, 3u);
  EXPECT_EQ(fake_cq().rings.at(0).page->consumed.value, 3u);
}

TEST_F(PollTest, EveryFieldOfACompletionArrives) {
  ASSERT_EQ(PostReceive(5), 0);
  uroce_cqe cqe = {.wr_id = 5,
                   .qp_handle = qp_->handle,
                   .qp_num = qp_->qp_num,
                   .wqe_index = 0,
                   .byte_len = 4096,
                   .imm_or_rkey = 0x11223344,
                   .src_qp = 9,
                   .status = IBV_WC_SUCCESS,
                   .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                   .wc_flags = IBV_WC_WITH_IMM,
                   .flags = UROCE_CQE_RECEIVE,
                   .vendor_err = 3,
                   .sl = 10};
  ASSERT_EQ(fake_cq().ring().Push(cqe), rings::PushResult::kOk);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 4096u);
  EXPECT_EQ(wc.imm_data, 0x11223344u);
  EXPECT_EQ(wc.qp_num, qp_->qp_num);
  EXPECT_EQ(wc.src_qp, 9u);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(wc.vendor_err, 3u);
  EXPECT_EQ(wc.sl, 10);
  EXPECT_EQ(wc.pkey_index, 0);
}

TEST_F(PollTest, CompletionsOfADestroyedQueuePairAreGone) {
  ibv_qp* other = CreateQp();
  ibv_qp* mine = qp_;
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  Complete(0, 1);
  qp_ = other;
  MoveTo(IBV_QPS_RTS);
  ASSERT_EQ(Post(Write(2, nullptr)), 0);
  Complete(0, 2);
  EXPECT_EQ(ibv_destroy_qp(mine), 0);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{2});
}

TEST_F(PollTest, AnOverflowedQueueFailsOnceItIsDrained) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  Complete(0, 1);
  fake_cq().page->error.value = 1;
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{1});
  ibv_wc wc;
  int result = 0;
  for (int i = 0; i < 64 && result == 0; ++i) result = ibv_poll_cq(cq_, 1, &wc);
  EXPECT_LT(result, 0);
}

TEST_F(PollTest, RequestNotifyArms) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  EXPECT_EQ(fake_cq().page->arm.value, UROCE_CQ_ARMED_SOLICITED);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_TRUE(rings::TakeArming(*fake_cq().page, false));
}

TEST_F(PollTest, CreationChecksItsArguments) {
  EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 1 << 21, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(context_, 16, nullptr, nullptr, context_->num_comp_vectors), nullptr);
  EXPECT_EQ(ibv_create_cq(context_, 16, nullptr, nullptr, -1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_GE(cq_->cqe, 16);
  EXPECT_EQ(cq_->cq_context, this);
}

// That queue's account would keep it when the queue pair goes.
TEST_F(PollTest, ACompletionOfAQueuePairThatCompletesElsewhereIsNone) {
  ibv_cq* elsewhere = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  ASSERT_NE(elsewhere, nullptr);
  ibv_qp* other = CreateQp(elsewhere);
  ASSERT_NE(other, nullptr);
  FakeCq& fake = daemon_->cq(elsewhere->handle);
  ASSERT_EQ(fake.ring().Push({.wr_id = 1, .qp_handle = qp_->handle}), rings::PushResult::kOk);
  ASSERT_EQ(fake.ring().Push({.wr_id = 2, .qp_handle = other->handle}), rings::PushResult::kOk);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(elsewhere, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  EXPECT_EQ(ibv_destroy_cq(elsewhere), 0);
}

TEST_F(PollTest, AnExtendedQueueIsReadFieldByField) {
  ibv_cq_init_attr_ex wanted = {};
  wanted.cqe = 16;
  wanted.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;
  ibv_cq_ex* extended = ibv_create_cq_ex(context_, &wanted);
  ASSERT_NE(extended, nullptr);
  ibv_poll_cq_attr attr = {};
  EXPECT_EQ(ibv_start_poll(extended, &attr), ENOENT);
  ibv_qp* other = CreateQp(ibv_cq_ex_to_cq(extended));
  ASSERT_NE(other, nullptr);
  FakeCq& fake = daemon_->cq(extended->handle);
  for (uint32_t i = 0; i < 2; ++i) {
    const uroce_cqe cqe = {.wr_id = i + 40,
                           .qp_handle = other->handle,
                           .qp_num = other->qp_num,
                           .wqe_index = i,
                           .byte_len = i + 7,
                           .opcode = IBV_WC_RDMA_WRITE};
    ASSERT_EQ(fake.ring().Push(cqe), rings::PushResult::kOk);
  }
  ASSERT_EQ(ibv_start_poll(extended, &attr), 0);
  EXPECT_EQ(extended->wr_id, 40u);
  EXPECT_EQ(ibv_wc_read_byte_len(extended), 7u);
  ASSERT_EQ(ibv_next_poll(extended), 0);
  EXPECT_EQ(extended->wr_id, 41u);
  EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RDMA_WRITE);
  EXPECT_EQ(ibv_wc_read_qp_num(extended), other->qp_num);
  EXPECT_EQ(ibv_next_poll(extended), ENOENT);
  ibv_end_poll(extended);
  EXPECT_EQ(fake.rings.at(0).page->consumed.value, 2u);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
  wanted.wc_flags = IBV_WC_EX_WITH_CVLAN;
  EXPECT_EQ(ibv_create_cq_ex(context_, &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(PollTest, ACompletionTellsWhenItWasMadeByBothClocks) {
  ibv_cq_init_attr_ex wanted = {};
  wanted.cqe = 4;
  wanted.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* extended = ibv_create_cq_ex(context_, &wanted);
  ASSERT_NE(extended, nullptr);
  ibv_qp* other = CreateQp(ibv_cq_ex_to_cq(extended));
  ASSERT_NE(other, nullptr);
  FakeCq& fake = daemon_->cq(ibv_cq_ex_to_cq(extended)->handle);
  EXPECT_NE(fake.request.has_times, 0u);
  ibv_values_ex before{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &before), 0);
  const auto raw = static_cast<uint64_t>(before.raw_clock.tv_nsec);
  uroce_cqe cqe = {.qp_handle = other->handle, .qp_num = other->qp_num};
  cqe.time_ns = raw;
  ASSERT_EQ(fake.ring().Push(cqe), rings::PushResult::kOk);
  ibv_poll_cq_attr attr = {};
  ASSERT_EQ(ibv_start_poll(extended, &attr), 0);
  EXPECT_EQ(ibv_wc_read_completion_ts(extended), raw);
  constexpr uint64_t kYear2020 = 1'577'836'800'000'000'000;
  EXPECT_GT(ibv_wc_read_completion_wallclock_ns(extended), kYear2020);
  ibv_end_poll(extended);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

}  // namespace
}  // namespace uroce::shim_test
