// SPDX-License-Identifier: Apache-2.0
// Thread domains and parent domains: ibv_alloc_td(3), ibv_alloc_parent_domain(3).
#include <cerrno>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class DomainTest : public ShimTest {
 protected:
  ibv_td* AllocTd() {
    ibv_td_init_attr attr = {};
    return ibv_alloc_td(context_, &attr);
  }
  ibv_pd* AllocParent(ibv_pd* pd, ibv_td* td, uint32_t comp_mask = 0) {
    ibv_parent_domain_init_attr attr = {};
    attr.pd = pd;
    attr.td = td;
    attr.comp_mask = comp_mask;
    return ibv_alloc_parent_domain(context_, &attr);
  }
};

// rdma-unit-test looks for EBUSY there.
TEST_F(DomainTest, ARefusalOfTheDaemonIsInErrnoTooAndASuccessKeepsErrno) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  daemon_->FailNext(UROCE_DEALLOC_PD, EBUSY);
  errno = 0;
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(errno, EBUSY);
  errno = ENOTTY;
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(errno, ENOTTY);
}

TEST_F(DomainTest, WhatAParentDomainStandsForCannotGoBeforeIt) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  ibv_td* td = AllocTd();
  ibv_pd* parent = AllocParent(pd, td);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// A device that needs no memory which is shared with a guest's host takes the permission.
TEST_F(DomainTest, AParentDomainMayAllowUnprotectedMemory) {
  constexpr uint32_t kAllowUnprotected = 1 << 2, kUnknown = 1 << 3;
  ibv_pd* parent = AllocParent(pd_, nullptr, kAllowUnprotected);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(AllocParent(pd_, nullptr, kUnknown), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(DomainTest, AQueuePairOfAParentDomainIsOfItsProtectionDomain) {
  ibv_pd* parent = AllocParent(pd_, nullptr);
  ASSERT_NE(parent, nullptr);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {1, 1, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(parent, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->pd, parent);
  EXPECT_EQ(daemon_->qp(qp->handle).request.pd, pd_->handle);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(DomainTest, UnknownExtensionsAreRefused) {
  ibv_td_init_attr attr = {};
  attr.comp_mask = 1;
  EXPECT_EQ(ibv_alloc_td(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(AllocParent(pd_, nullptr, 1u << 7), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(AllocParent(nullptr, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(DomainTest, ACompletionQueueTakesAParentDomainOfItsContext) {
  ibv_cq_init_attr_ex wanted = {};
  wanted.cqe = 4;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  EXPECT_EQ(ibv_create_cq_ex(context_, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wanted.parent_domain = pd_;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &wanted);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace
}  // namespace uroce::shim_test
