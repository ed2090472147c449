// SPDX-License-Identifier: Apache-2.0
// Completion and asynchronous events, acknowledgements: protocol/verbs-semantics.md 8.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class EventTest : public ShimTest {
 protected:
  template <typename Record>
  static void WriteRecord(int fd, const Record& record) {
    ASSERT_EQ(write(fd, &record, sizeof(record)), static_cast<ssize_t>(sizeof(record)));
  }
};

TEST_F(EventTest, ACompletionEventNamesItsQueueAndContext) {
  WriteRecord(daemon_->channel_fd(), fake_cq().request.user_handle);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), 0);
  EXPECT_EQ(cq, cq_);
  EXPECT_EQ(cq_context, this);
  ibv_ack_cq_events(cq, 1);
}

TEST_F(EventTest, ANonBlockingChannelSaysAgain) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(EventTest, DestroyWaitsUntilEventsAreAcknowledged) {
  ibv_cq* other = ibv_create_cq(context_, 4, nullptr, channel_, 0);
  ASSERT_NE(other, nullptr);
  for (int i = 0; i < 2; ++i) {
    WriteRecord(daemon_->channel_fd(), daemon_->cq(other->handle).request.user_handle);
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), 0);
  }
  ibv_ack_cq_events(other, 1);
  std::atomic<bool> is_destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(other), 0);
    is_destroyed = true;
  });
  while (daemon_->Last(UROCE_DESTROY_CQ).command == 0) std::this_thread::yield();
  EXPECT_FALSE(is_destroyed);
  ibv_ack_cq_events(other, 1);
  destroyer.join();
}

TEST_F(EventTest, AnAsynchronousEventNamesItsQueuePair) {
  WriteRecord(daemon_->async_fd(),
              uroce_async_record{fake_qp().request.user_handle, IBV_EVENT_QP_ACCESS_ERR, 0});
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, qp_);
  ibv_ack_async_event(&event);
}

// The daemon's word for how many events there were holds nobody up.
TEST_F(EventTest, EventsThatTheProgramWasNotGivenAreNotWaitedFor) {
  ibv_cq* other = ibv_create_cq(context_, 4, nullptr, channel_, 0);
  ASSERT_NE(other, nullptr);
  daemon_->cq(other->handle).comp_events_reported = 2;
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(EventTest, ARecordThatNamesNothingIsAnError) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  const uint64_t queue_pair = fake_qp().request.user_handle;
  for (const uint64_t number : {uint64_t{0}, ~uint64_t{0}, queue_pair, queue_pair + 1}) {
    WriteRecord(daemon_->channel_fd(), number);
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    errno = 0;
    EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), -1) << number;
    EXPECT_EQ(errno, EIO) << number;
    EXPECT_EQ(cq, nullptr);
  }
}

TEST_F(EventTest, AnEventOfWhatIsGoneIsPassedOver) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* other = ibv_create_cq(context_, 4, nullptr, channel_, 0);
  ASSERT_NE(other, nullptr);
  const uint64_t gone = daemon_->cq(other->handle).request.user_handle;
  ASSERT_EQ(ibv_destroy_cq(other), 0);
  WriteRecord(daemon_->channel_fd(), gone);
  WriteRecord(daemon_->channel_fd(), fake_cq().request.user_handle);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), 0);
  EXPECT_EQ(cq, cq_);
  ibv_ack_cq_events(cq, 1);
}

TEST_F(EventTest, APortEventNamesItsPort) {
  WriteRecord(daemon_->async_fd(), uroce_async_record{1, IBV_EVENT_GID_CHANGE, 0});
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(event.element.port_num, 1);
  ibv_ack_async_event(&event);
}

TEST_F(EventTest, AChannelWithQueuesIsBusy) {
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

}  // namespace
}  // namespace uroce::shim_test
