// SPDX-License-Identifier: Apache-2.0
// A daemon that goes away, and a fork: errors and flushed work, nothing hangs.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class DeadDaemonTest : public ShimTest {
 protected:
  /// Polls as a program that waits does; empty when nothing came in very many polls.
  std::vector<ibv_wc> PollUntil(size_t count) {
    std::vector<ibv_wc> found;
    for (int polls = 0; polls < 1000 && found.size() < count; ++polls) {
      ibv_wc wc;
      const int result = ibv_poll_cq(cq_, 1, &wc);
      EXPECT_GE(result, 0);
      if (result == 1) found.push_back(wc);
    }
    return found;
  }
};

TEST_F(DeadDaemonTest, OutstandingWorkCompletesAsFlushedInOrder) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(Post(Write(i, nullptr)), 0);
  ASSERT_EQ(PostReceive(100), 0);
  ASSERT_EQ(PostReceive(101), 0);
  Complete(0, 0);
  daemon_->Stop();
  const std::vector<ibv_wc> wcs = PollUntil(6);
  ASSERT_EQ(wcs.size(), 6u);
  const uint64_t ids[] = {0, 1, 2, 3, 100, 101};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(wcs[i].wr_id, ids[i]);
    EXPECT_EQ(wcs[i].status, i == 0 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wcs[i].qp_num, qp_->qp_num);
  }
  // What is posted later is flushed too.
  ASSERT_EQ(Post(Write(7, nullptr)), 0);
  EXPECT_EQ(PollUntil(1).size(), 1u);
}

TEST_F(DeadDaemonTest, CommandsSayInputOutputError) {
  daemon_->Stop();
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), EIO);
  errno = 0;
  EXPECT_EQ(ibv_alloc_pd(context_), nullptr);
  EXPECT_EQ(errno, EIO);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context_, 1, &port), EIO);
}

TEST_F(DeadDaemonTest, OneDeviceFatalThenErrors) {
  daemon_->Stop();
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(context_, &event), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(DeadDaemonTest, AWaiterOnAChannelGetsAnError) {
  daemon_->Stop();
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EIO);
}

// Events that the daemon reported, and that no thread will acknowledge now, keep no object.
TEST_F(DeadDaemonTest, ObjectsCanBeDestroyedWithoutIt) {
  fake_cq().comp_events_reported = 5;
  daemon_->Stop();
  EXPECT_EQ(ibv_destroy_qp(qp_), 0);
  qp_ = nullptr;
}

TEST_F(DeadDaemonTest, ANewDaemonServesNewContexts) {
  ibv_device* before = context_->device;
  daemon_->Stop();
  FakeDaemon second;
  setenv("UROCE_SOCKET", second.socket_path().c_str(), 1);
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list[0], before);
  ibv_context* fresh = ibv_open_device(list[0]);
  ASSERT_NE(fresh, nullptr);
  ibv_free_device_list(list);
  EXPECT_EQ(ibv_close_device(fresh), 0);
}

/// A daemon after the first, with more workers, and a context and a domain of it.
class NextDaemonTest : public DeadDaemonTest {
 protected:
  void SetUp() override {
    DeadDaemonTest::SetUp();
    daemon_->Stop();
    next_.set_worker_count(4);
    setenv("UROCE_SOCKET", next_.socket_path().c_str(), 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    fresh_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(fresh_, nullptr);
    fresh_pd_ = ibv_alloc_pd(fresh_);
    ASSERT_NE(fresh_pd_, nullptr);
    errno = 0;
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_pd(fresh_pd_), 0);
    EXPECT_EQ(ibv_close_device(fresh_), 0);
    DeadDaemonTest::TearDown();
  }
  ibv_qp* CreateQpOf(ibv_cq* send_cq, ibv_cq* receive_cq) {
    ibv_qp_init_attr init = {};
    init.send_cq = send_cq;
    init.recv_cq = receive_cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {kSendDepth, kReceiveDepth, 2, 2, 64};
    return ibv_create_qp(fresh_pd_, &init);
  }

  FakeDaemon next_;
  ibv_context* fresh_ = nullptr;
  ibv_pd* fresh_pd_ = nullptr;
};

TEST_F(NextDaemonTest, AQueuePairTakesNoCompletionQueueOfTheFormerOne) {
  ibv_cq* fresh_cq = ibv_create_cq(fresh_, 16, nullptr, nullptr, 0);
  ASSERT_NE(fresh_cq, nullptr);
  for (const auto& [send_cq, receive_cq] :
       {std::pair{cq_, cq_}, std::pair{cq_, fresh_cq}, std::pair{fresh_cq, cq_}}) {
    errno = 0;
    EXPECT_EQ(CreateQpOf(send_cq, receive_cq), nullptr);
    EXPECT_EQ(errno, EIO);
  }
  EXPECT_EQ(ibv_destroy_cq(fresh_cq), 0);
}

TEST_F(NextDaemonTest, ACompletionQueueTakesNoChannelOfTheFormerOne) {
  EXPECT_EQ(ibv_create_cq(fresh_, 16, nullptr, channel_, 0), nullptr);
  EXPECT_EQ(errno, EIO);
}

TEST_F(NextDaemonTest, AnXrcReceiveQueueTakesNoCompletionQueueOfTheFormerOne) {
  ibv_xrcd_init_attr domain = {};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  ibv_xrcd* xrcd = ibv_open_xrcd(fresh_, &domain);
  ASSERT_NE(xrcd, nullptr);
  ibv_srq_init_attr_ex init = {};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  init.srq_type = IBV_SRQT_XRC;
  init.pd = fresh_pd_;
  init.xrcd = xrcd;
  init.cq = cq_;
  errno = 0;
  EXPECT_EQ(ibv_create_srq_ex(fresh_, &init), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

int UseObjectsInChild(ibv_qp* qp, ibv_cq* cq, ibv_context* context) {
  ibv_send_wr send = {};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  if (ibv_post_send(qp, &send, &bad_send) != EIO || bad_send != &send) return 1;
  ibv_recv_wr receive = {};
  ibv_recv_wr* bad_receive = nullptr;
  if (ibv_post_recv(qp, &receive, &bad_receive) != EIO) return 2;
  ibv_wc wc;
  if (ibv_poll_cq(cq, 1, &wc) >= 0) return 3;
  if (ibv_req_notify_cq(cq, 0) != EIO) return 4;
  if (ibv_alloc_pd(context) != nullptr) return 5;
  return ibv_destroy_qp(qp) == EIO ? 0 : 6;
}

TEST_F(DeadDaemonTest, AChildsObjectsAreDeadAndTheParentsAreNot) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(UseObjectsInChild(qp_, cq_, context_));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  EXPECT_EQ(TakeSend().header.wr_id, 1u);
}

}  // namespace
}  // namespace uroce::shim_test
