// SPDX-License-Identifier: Apache-2.0
// A program with one opened device of a fake daemon, one CQ and one queue pair ready to send.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/verbs-shim/daemon/fake_daemon.h"

namespace uroce::shim_test {

class ShimTest : public testing::Test {
 protected:
  static constexpr uint32_t kSendDepth = 6;  // No power of two: the limit is what was granted.
  static constexpr uint32_t kReceiveDepth = 4;

  explicit ShimTest(uint32_t workers = 1) : daemon_(std::make_unique<FakeDaemon>()) {
    daemon_->set_worker_count(workers);
  }

  void SetUp() override {
    setenv("UROCE_SOCKET", daemon_->socket_path().c_str(), 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    ASSERT_NE(list[0], nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    cq_ = ibv_create_cq(context_, 16, this, channel_, 0);
    ASSERT_NE(cq_, nullptr);
    qp_ = CreateQp();
    ASSERT_NE(qp_, nullptr);
    MoveTo(IBV_QPS_RTS);
  }

  void TearDown() override {
    if (qp_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  ibv_qp* CreateQp(bool signal_all = false) { return CreateQp(cq_, signal_all); }
  ibv_qp* CreateQp(ibv_cq* cq, bool signal_all = false, ibv_qp_type type = IBV_QPT_RC) {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = type;
    init.sq_sig_all = signal_all;
    init.cap = {kSendDepth, kReceiveDepth, 2, 2, 64};
    return ibv_create_qp(pd_, &init);
  }

  void MoveTo(ibv_qp_state state) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    ASSERT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), 0);
  }

  FakeQp& fake_qp() { return daemon_->qp(qp_->handle); }
  FakeCq& fake_cq() { return daemon_->cq(cq_->handle); }

  static ibv_send_wr Write(uint64_t wr_id, ibv_sge* sge) {
    ibv_send_wr wr = {};
    wr.wr_id = wr_id;
    wr.sg_list = sge;
    wr.num_sge = sge == nullptr ? 0 : 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {0x1000, 77};
    return wr;
  }

  int Post(ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad);
  }
  int PostReceive(uint64_t wr_id, int num_sge = 0) {
    ibv_sge sges[3] = {};
    ibv_recv_wr wr = {wr_id, nullptr, sges, num_sge};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad);
  }

  /// Takes the next send request as the worker does.
  rings::SendWqe TakeSend() {
    rings::SendWqe wqe = {};
    EXPECT_EQ(fake_qp().send.Look(), rings::QueueState::kReady);
    EXPECT_EQ(rings::ReadSendWqe(fake_qp().send.Slot(), {2, 64}, wqe), rings::WqeResult::kOk);
    fake_qp().send.Advance();
    return wqe;
  }
  bool HasSend() { return fake_qp().send.Look() == rings::QueueState::kReady; }

  /// Completes the send request at `index`.
  void Complete(uint32_t index, uint64_t wr_id, uint8_t flags = 0,
                ibv_wc_status status = IBV_WC_SUCCESS) {
    uroce_cqe cqe = {};
    cqe.wr_id = wr_id;
    cqe.qp_handle = qp_->handle;
    cqe.qp_num = qp_->qp_num;
    cqe.wqe_index = index;
    cqe.status = static_cast<uint8_t>(status);
    cqe.opcode = flags == UROCE_CQE_RECEIVE ? IBV_WC_RECV : IBV_WC_RDMA_WRITE;
    cqe.flags = flags;
    ASSERT_EQ(fake_cq().ring().Push(cqe), rings::PushResult::kOk);
  }
  std::vector<uint64_t> PollAll() {
    std::vector<uint64_t> ids;
    ibv_wc wc;
    while (ibv_poll_cq(cq_, 1, &wc) == 1) ids.push_back(wc.wr_id);
    return ids;
  }

  std::unique_ptr<FakeDaemon> daemon_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

}  // namespace uroce::shim_test
