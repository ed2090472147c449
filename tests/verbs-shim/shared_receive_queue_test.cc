// SPDX-License-Identifier: Apache-2.0
// Shared receive queues: posting, room, resizing, completions, events.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class SharedReceiveQueueTest : public ShimTest {
 protected:
  void SetUp() override {
    ShimTest::SetUp();
    ibv_srq_init_attr init = {this, {3, 2, 0}};
    srq_ = ibv_create_srq(pd_, &init);
    ASSERT_NE(srq_, nullptr);
    EXPECT_GE(init.attr.max_wr, 3u);
  }
  void TearDown() override {
    if (srq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    }
    ShimTest::TearDown();
  }

  int Post(uint64_t wr_id, int num_sge = 1) {
    ibv_sge sges[3] = {{0x1000 + wr_id, 10, 5}};
    ibv_recv_wr wr = {wr_id, nullptr, sges, num_sge};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_, &wr, &bad);
  }
  FakeSrq& fake() { return daemon_->srq(srq_->handle); }

  ibv_srq* srq_ = nullptr;
};

TEST_F(SharedReceiveQueueTest, ASlotIsFreeOnceTheWorkerHasTakenItsEntry) {
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(Post(id), 0);
  EXPECT_EQ(Post(4), ENOMEM);
  EXPECT_EQ(Post(4, 3), ENOMEM);
  rings::ReceiveWqe wqe = {};
  ASSERT_TRUE(fake().Take(wqe));
  EXPECT_EQ(wqe.header.wr_id, 1u);
  EXPECT_EQ(wqe.sges[0].addr, 0x1001u);
  EXPECT_EQ(Post(4, 3), EINVAL) << "too many entries";
  EXPECT_EQ(Post(4), 0);
}

TEST_F(SharedReceiveQueueTest, AListStopsAtItsFirstBadRequest) {
  ibv_recv_wr second = {2, nullptr, nullptr, 99};
  ibv_recv_wr first = {1, &second, nullptr, 0};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq_, &first, &bad), EINVAL);
  EXPECT_EQ(bad, &second);
  rings::ReceiveWqe wqe = {};
  EXPECT_TRUE(fake().Take(wqe));
  EXPECT_FALSE(fake().Take(wqe));
}

TEST_F(SharedReceiveQueueTest, CompletionsInAnyOrderFreeNothingOfTheQueuePair) {
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {kSendDepth, 0, 1, 0, 0};
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->srq, srq_);
  EXPECT_EQ(daemon_->Last(UROCE_CREATE_QP).As<uroce_create_qp>().srq, srq_->handle);
  uroce_cqe cqe = {};
  cqe.qp_handle = qp->handle;
  cqe.qp_num = qp->qp_num;
  cqe.opcode = IBV_WC_RECV;
  cqe.flags = UROCE_CQE_RECEIVE | UROCE_CQE_SHARED;
  for (const uint32_t index : {2u, 0u, 1u}) {
    cqe.wr_id = index;
    cqe.wqe_index = index;
    ASSERT_EQ(fake_cq().ring().Push(cqe), rings::PushResult::kOk);
  }
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{2, 0, 1}));
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(SharedReceiveQueueTest, AfterAResizePostingGoesOnInTheNewRing) {
  ibv_srq_attr attr = {6, 0, 2};
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  for (uint64_t id = 1; id <= 6; ++id) EXPECT_EQ(Post(id), 0);
  EXPECT_EQ(Post(7), ENOMEM);
  rings::ReceiveWqe wqe = {};
  ASSERT_TRUE(fake().Take(wqe));
  EXPECT_EQ(wqe.header.wr_id, 1u);
  ASSERT_EQ(ibv_query_srq(srq_, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 2u);
}

TEST_F(SharedReceiveQueueTest, TheLimitEventNamesItsQueue) {
  const uroce_event_record record = {fake().request.user_handle, IBV_EVENT_SRQ_LIMIT_REACHED, 0};
  ASSERT_EQ(write(daemon_->async_fd(), &record, sizeof(record)), ssize_t{sizeof(record)});
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq_);
  ibv_ack_async_event(&event);
}

TEST_F(SharedReceiveQueueTest, OnlyBasicOnesAreServed) {
  ibv_srq_init_attr_ex init = {};
  init.attr = {4, 1, 0};
  init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  init.pd = pd_;
  init.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(ibv_create_srq_ex(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.srq_type = IBV_SRQT_BASIC;
  ibv_srq* srq = ibv_create_srq_ex(context_, &init);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

/// The process has room for 2 GiB more of addresses: less than the arena.
class LimitedAddressSpaceTest : public SharedReceiveQueueTest {
 protected:
  LimitedAddressSpaceTest() {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &former_);
    rlimit limit = former_;
    limit.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (2ull << 30);
    setrlimit(RLIMIT_AS, &limit);
  }
  ~LimitedAddressSpaceTest() override { setrlimit(RLIMIT_AS, &former_); }

 private:
  rlimit former_ = {};
};

TEST_F(LimitedAddressSpaceTest, AResizeThatMayLieOutOfReachChangesNothing) {
  ibv_srq_attr attr = {1u << 24, 0, 0};
  EXPECT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR), ENOMEM);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(Post(id), 0);
  attr.max_wr = 8;
  EXPECT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(Post(4), 0);
}

}  // namespace
}  // namespace uroce::shim_test
