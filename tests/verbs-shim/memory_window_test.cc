// SPDX-License-Identifier: Apache-2.0
// ibv_alloc_mw, ibv_bind_mw, and requests that bind windows and take keys back.
#include <cstring>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class MemoryWindowTest : public ShimTest {
 protected:
  void SetUp() override {
    ShimTest::SetUp();
    window_ = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
    ASSERT_NE(window_, nullptr);
    region_ = {context_, pd_, nullptr, 4096, 9, 0x500, 0x500};
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_mw(window_), 0);
    ShimTest::TearDown();
  }
  void ExpectBind(const rings::SendWqe& wqe, uint32_t key) {
    EXPECT_EQ(wqe.header.opcode, IBV_WR_BIND_MW);
    EXPECT_EQ(wqe.header.num_sge, 0);
    EXPECT_EQ(wqe.header.imm_or_rkey, FakeDaemon::kFirstWindowKey);
    EXPECT_EQ(wqe.header.rkey, key);
    EXPECT_EQ(wqe.header.remote_addr, 0x7000u);
    EXPECT_EQ(wqe.header.bind.length, 4000u);
    EXPECT_EQ(wqe.header.bind.lkey, 0x500u);
    EXPECT_EQ(wqe.header.bind.access, IBV_ACCESS_REMOTE_WRITE);
  }

  ibv_mw* window_ = nullptr;
  ibv_mr region_{};
};

TEST_F(MemoryWindowTest, AWindowHasTheKeyThatTheDaemonGave) {
  EXPECT_EQ(window_->rkey, FakeDaemon::kFirstWindowKey);
  EXPECT_EQ(window_->type, IBV_MW_TYPE_1);
  EXPECT_EQ(window_->pd, pd_);
  daemon_->FailNext(UROCE_ALLOC_MW, ENOMEM);
  EXPECT_EQ(ibv_alloc_mw(pd_, IBV_MW_TYPE_2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(MemoryWindowTest, BindingType1PostsAWorkAndTakesTheNextVariant) {
  ibv_mw_bind bind = {7, IBV_SEND_SIGNALED, {&region_, 0x7000, 4000, IBV_ACCESS_REMOTE_WRITE}};
  ASSERT_EQ(ibv_bind_mw(qp_, window_, &bind), 0);
  const uint32_t key = ibv_inc_rkey(FakeDaemon::kFirstWindowKey);
  EXPECT_EQ(window_->rkey, key);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.wr_id, 7u);
  ExpectBind(wqe, key);
}

TEST_F(MemoryWindowTest, ABindingThatCannotBePostedLeavesTheKey) {
  MoveTo(IBV_QPS_INIT);
  ibv_mw_bind bind = {7, 0, {&region_, 0x7000, 4000, IBV_ACCESS_REMOTE_WRITE}};
  EXPECT_EQ(ibv_bind_mw(qp_, window_, &bind), EINVAL);
  EXPECT_EQ(window_->rkey, FakeDaemon::kFirstWindowKey);
}

TEST_F(MemoryWindowTest, RequestsNameWhatIsBoundAndWhatIsTakenBack) {
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw = {window_, 0x1277, {&region_, 0x7000, 4000, IBV_ACCESS_REMOTE_WRITE}};
  ASSERT_EQ(Post(wr), 0);
  ExpectBind(TakeSend(), 0x1277);
  wr = {};
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.invalidate_rkey = 0x1277;
  ASSERT_EQ(Post(wr), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.opcode, IBV_WR_LOCAL_INV);
  EXPECT_EQ(wqe.header.imm_or_rkey, 0x1277u);
}

TEST_F(MemoryWindowTest, WhatCannotBeWrittenDownIsInvalid) {
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_BIND_MW;
  EXPECT_EQ(Post(wr), EINVAL) << "no window";
  wr.bind_mw = {window_, 0x1277, {&region_, 0x7000, 4000, IBV_ACCESS_REMOTE_WRITE}};
  region_.context = nullptr;
  EXPECT_EQ(Post(wr), EINVAL) << "a region of another device";
  region_.context = context_;
  wr.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(Post(wr), EINVAL) << "nothing is sent of it";
}

}  // namespace
}  // namespace uroce::shim_test
