// SPDX-License-Identifier: Apache-2.0
// Extended connections (XRC): domains, initiators, targets, and queues that complete for targets of
// whatever program.
#include <fcntl.h>

#include <cstring>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class XrcTest : public ShimTest {
 protected:
  void SetUp() override {
    ShimTest::SetUp();
    ibv_xrcd_init_attr init = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
    xrcd_ = ibv_open_xrcd(context_, &init);
    ASSERT_NE(xrcd_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    ShimTest::TearDown();
  }

  ibv_srq_init_attr_ex QueueAttributes() const {
    ibv_srq_init_attr_ex init = {};
    init.attr = {4, 1, 0};
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = pd_;
    init.xrcd = xrcd_;
    init.cq = cq_;
    return init;
  }
  ibv_srq* CreateQueue() {
    ibv_srq_init_attr_ex init = QueueAttributes();
    return ibv_create_srq_ex(context_, &init);
  }
  ibv_qp* CreateTarget() {
    ibv_qp_init_attr_ex init = {};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd_;
    return ibv_create_qp_ex(context_, &init);
  }
  void CompleteFor(const ibv_srq* srq, uint64_t wr_id) {
    uroce_cqe cqe = {};
    cqe.wr_id = wr_id;
    cqe.qp_handle = srq->handle;
    cqe.qp_num = 0x777;
    cqe.opcode = IBV_WC_RECV;
    cqe.flags = UROCE_CQE_RECEIVE | UROCE_CQE_SHARED | UROCE_CQE_XRC;
    ASSERT_EQ(fake_cq().ring().Push(cqe), rings::PushResult::kOk);
  }

  ibv_xrcd* xrcd_ = nullptr;
};

TEST_F(XrcTest, ADomainNeedsAFileAndFlags) {
  ibv_xrcd_init_attr init = {IBV_XRCD_INIT_ATTR_FD, -1, 0};
  EXPECT_EQ(ibv_open_xrcd(context_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.comp_mask = 7;
  EXPECT_EQ(ibv_open_xrcd(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  daemon_->FailNext(UROCE_CLOSE_XRCD, EBUSY);
  EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
}

TEST_F(XrcTest, AQueueNeedsItsDomainAndACompletionQueue) {
  for (const uint32_t lacks :
       {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ}) {
    ibv_srq_init_attr_ex init = QueueAttributes();
    init.comp_mask &= ~lacks;
    EXPECT_EQ(ibv_create_srq_ex(context_, &init), nullptr);
    EXPECT_EQ(errno, EINVAL) << lacks;
  }
  ibv_srq_init_attr_ex init = QueueAttributes();
  init.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
  EXPECT_EQ(ibv_create_srq_ex(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(XrcTest, OnlyAQueueOfADomainHasANumber) {
  uint32_t number = 0;
  ibv_srq* srq = CreateQueue();
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  EXPECT_EQ(number, FakeDaemon::kQueueNumber + srq->handle);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_srq_init_attr init = {nullptr, {3, 2, 0}};
  srq = ibv_create_srq(pd_, &init);
  EXPECT_EQ(ibv_get_srq_num(srq, &number), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(XrcTest, CompletionsNameATargetThatMayBeAnotherPrograms) {
  ibv_srq* srq = CreateQueue();
  CompleteFor(srq, 5);
  ibv_wc wc = {};
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.qp_num, 0x777u);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(XrcTest, WhatWaitsOfAQueueGoesWithItAndNothingElse) {
  ibv_srq* first = CreateQueue();
  ibv_srq* second = CreateQueue();
  CompleteFor(first, 1);
  CompleteFor(second, 2);
  Complete(0, 3);
  EXPECT_EQ(ibv_destroy_srq(first), 0);
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(ibv_destroy_srq(second), 0);
}

TEST_F(XrcTest, AQueuePairsCompletionsAreNotThoseOfAQueueWithItsHandle) {
  ibv_srq* srq = CreateQueue();
  ibv_srq impostor = *srq;
  impostor.handle = qp_->handle;
  CompleteFor(&impostor, 1);
  EXPECT_EQ(ibv_destroy_qp(qp_), 0);
  qp_ = nullptr;
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{1}));
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

/// An initiator, ready to send, whose program named a second completion queue for receives.
class XrcInitiatorTest : public XrcTest {
 protected:
  void SetUp() override {
    XrcTest::SetUp();
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    ibv_qp_init_attr_ex init = {};
    init.send_cq = cq_;
    init.recv_cq = receive_cq_ = ibv_create_cq(context_, 16, this, nullptr, 0);
    init.qp_type = IBV_QPT_XRC_SEND;
    init.cap = {kSendDepth, 0, 2, 0, 64};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
    qp_ = ibv_create_qp_ex(context_, &init);
    ASSERT_NE(qp_, nullptr);
    MoveTo(IBV_QPS_RTS);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(receive_cq_), 0);
    qp_ = nullptr;
    XrcTest::TearDown();
  }

  ibv_cq* receive_cq_ = nullptr;
};

TEST_F(XrcInitiatorTest, ItsCompletionsComeBySendsAlone) {
  Complete(0, 9);
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(receive_cq_, 1, &wc), 0);
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{9}));
  EXPECT_EQ(PostReceive(1), ENOMEM);
}

TEST_F(XrcInitiatorTest, EachRequestNamesItsQueue) {
  ibv_send_wr wr = Write(1, nullptr);
  wr.qp_type.xrc.remote_srqn = 0x1234;
  EXPECT_EQ(Post(wr), 0);
  EXPECT_EQ(TakeSend().header.xrc_srqn, 0x1234u);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp_);
  ASSERT_NE(extended, nullptr);
  char text[] = "inline";
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_set_inline_data(extended, text, sizeof(text));
  ibv_wr_set_xrc_srqn(extended, 0x5678);
  ibv_wr_rdma_read(extended, 1, 0x1000);
  ibv_wr_set_xrc_srqn(extended, 0x9abc);
  ibv_wr_set_sge(extended, 5, 0x2000, 8);
  EXPECT_EQ(ibv_wr_complete(extended), 0);
  EXPECT_EQ(TakeSend().header.xrc_srqn, 0x5678u);
  EXPECT_EQ(TakeSend().header.xrc_srqn, 0x9abcu);
}

TEST_F(XrcTest, AQueuePairOfAnotherServiceNamesNoQueue) {
  ibv_qp_init_attr_ex init = {};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {kSendDepth, kReceiveDepth, 2, 2, 64};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd_;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* qp = ibv_create_qp_ex(context_, &init);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_set_xrc_srqn(extended, 1);
  EXPECT_EQ(ibv_wr_complete(extended), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(XrcTest, ATargetTakesNoRequests) {
  ibv_qp* target = CreateTarget();
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->pd, nullptr);
  EXPECT_EQ(target->qp_num, FakeDaemon::kTargetNumber);
  target->state = IBV_QPS_RTS;
  ibv_send_wr send = Write(1, nullptr);
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(target, &send, &bad_send), EINVAL);
  ibv_recv_wr receive = {};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(target, &receive, &bad_receive), ENOMEM);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
}

TEST_F(XrcTest, ATargetIsOpenedByItsNumber) {
  ibv_qp_open_attr open = {IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
                               IBV_QP_OPEN_ATTR_CONTEXT,
                           FakeDaemon::kTargetNumber, xrcd_, this, IBV_QPT_XRC_RECV};
  ibv_qp* target = ibv_open_qp(context_, &open);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->qp_context, this);
  EXPECT_EQ(target->state, IBV_QPS_RTR) << "as it was when opened";
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  open.qp_type = IBV_QPT_XRC_SEND;
  EXPECT_EQ(ibv_open_qp(context_, &open), nullptr);
  open.qp_type = IBV_QPT_XRC_RECV;
  open.comp_mask &= ~IBV_QP_OPEN_ATTR_NUM;
  EXPECT_EQ(ibv_open_qp(context_, &open), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcTest, ATargetNeedsItsDomain) {
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace uroce::shim_test
