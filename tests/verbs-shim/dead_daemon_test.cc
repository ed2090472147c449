// SPDX-License-Identifier: Apache-2.0
// A daemon that goes away, and a fork: errors and flushed work, nothing hangs.
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

// Events that the daemon reported, and that nobody will acknowledge now, keep no object.
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
