// SPDX-License-Identifier: Apache-2.0
// Completion and asynchronous events, acknowledgements: docs/protocol/verbs-semantics.md,
// section 8.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class EventTest : public ShimTest {
 protected:
  static void WriteRecord(int fd, uint64_t element, uint32_t event_type) {
    const uroce_event_record record{element, event_type, 0};
    ASSERT_EQ(write(fd, &record, sizeof(record)), static_cast<ssize_t>(sizeof(record)));
  }
  /// A completion event of `cq`.
  void Complete(ibv_cq* cq) {
    FakeCq& fake = daemon_->cq(cq->handle);
    ++fake.comp_events_reported;
    WriteRecord(daemon_->channel_fd(), fake.request.user_handle, UROCE_EVENT_COMPLETION);
  }
  ibv_cq* CreateCq() {
    ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, channel_, 0);
    EXPECT_NE(cq, nullptr);
    return cq;
  }
  static bool IsReadable(int fd) {
    pollfd waits = {.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&waits, 1, 0) == 1;
  }
  /// How many events the channel promises to a thread that polls it.
  int Waiting() const {
    int bytes = 0;
    EXPECT_EQ(ioctl(channel_->fd, FIONREAD, &bytes), 0);
    EXPECT_EQ(IsReadable(channel_->fd), bytes != 0);
    return bytes / static_cast<int>(sizeof(uroce_event_record));
  }
  /// Whose event comes next; null: errno says why there is none.
  ibv_cq* NextCq() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &cq_context) != 0) return nullptr;
    ibv_ack_cq_events(cq, 1);
    return cq;
  }
};

TEST_F(EventTest, ACompletionEventNamesItsQueueAndContext) {
  Complete(cq_);
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
    Complete(other);
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
  WriteRecord(daemon_->async_fd(), fake_qp().request.user_handle, IBV_EVENT_QP_ACCESS_ERR);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, qp_);
  ibv_ack_async_event(&event);
}

// The shim does not wait for as many events as the daemon says there were.
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
    WriteRecord(daemon_->channel_fd(), number, UROCE_EVENT_COMPLETION);
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    errno = 0;
    EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), -1) << number;
    EXPECT_EQ(errno, EIO) << number;
    EXPECT_EQ(cq, nullptr);
  }
}

TEST_F(EventTest, ARecordOfTheOtherStreamIsAnError) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(context_->async_fd, F_SETFL, O_NONBLOCK), 0);
  WriteRecord(daemon_->channel_fd(), fake_cq().request.user_handle, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(NextCq(), nullptr);
  EXPECT_EQ(errno, EIO);
  WriteRecord(daemon_->async_fd(), fake_cq().request.user_handle, UROCE_EVENT_COMPLETION);
  ibv_async_event event;
  EXPECT_EQ(ibv_get_async_event(context_, &event), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(EventTest, ARecordOfWhatIsGoneIsPassedOver) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* other = CreateCq();
  const uint64_t gone = daemon_->cq(other->handle).request.user_handle;
  ASSERT_EQ(ibv_destroy_cq(other), 0);
  WriteRecord(daemon_->channel_fd(), gone, UROCE_EVENT_COMPLETION);
  Complete(cq_);
  EXPECT_EQ(NextCq(), cq_);
}

// Programs poll the channel and then take an event without looking whether that waits.
TEST_F(EventTest, TheChannelIsReadableForAsLongAsAnEventWaits) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* first = CreateCq();
  ibv_cq* second = CreateCq();
  ibv_cq* third = CreateCq();
  for (ibv_cq* cq : {second, third, first, cq_, first, second}) Complete(cq);
  ASSERT_EQ(ibv_destroy_cq(first), 0);
  EXPECT_EQ(Waiting(), 4);
  EXPECT_EQ(NextCq(), second) << "in order";
  EXPECT_EQ(NextCq(), third);
  Complete(third);
  EXPECT_EQ(Waiting(), 3);
  ASSERT_EQ(ibv_destroy_cq(second), 0);
  EXPECT_EQ(Waiting(), 2);
  EXPECT_EQ(NextCq(), cq_);
  EXPECT_EQ(NextCq(), third);
  EXPECT_EQ(Waiting(), 0);
  EXPECT_EQ(NextCq(), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  Complete(third);
  ASSERT_EQ(ibv_destroy_cq(third), 0);
  EXPECT_EQ(Waiting(), 0);
}

// What one destruction keeps ahead, the next one drops.
TEST_F(EventTest, QueuesThatEndOneAfterTheOtherLeaveNothing) {
  constexpr int kCount = 40;
  constexpr int kRounds = 3;
  std::vector<ibv_cq*> queues;
  for (int i = 0; i < kCount; ++i) queues.push_back(CreateCq());
  for (int round = 0; round < kRounds; ++round) {
    for (ibv_cq* cq : queues) Complete(cq);
  }
  Complete(cq_);
  // The last first: what is ahead of its events is kept, and ends then.
  while (!queues.empty()) {
    EXPECT_EQ(Waiting(), static_cast<int>(queues.size()) * kRounds + 1);
    ASSERT_EQ(ibv_destroy_cq(queues.back()), 0);
    queues.pop_back();
  }
  EXPECT_EQ(Waiting(), 1);
  EXPECT_EQ(NextCq(), cq_);
  EXPECT_EQ(Waiting(), 0);
}

TEST_F(EventTest, AsynchronousEventsOfWhatEndsAreTakenBack) {
  ibv_cq* other = CreateCq();
  FakeCq& fake = daemon_->cq(other->handle);
  WriteRecord(daemon_->async_fd(), fake.request.user_handle, IBV_EVENT_CQ_ERR);
  fake.async_events_reported = 1;
  WriteRecord(daemon_->async_fd(), 1, IBV_EVENT_PORT_ACTIVE);
  ASSERT_EQ(ibv_destroy_cq(other), 0);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  EXPECT_FALSE(IsReadable(context_->async_fd));
}

// Readers, and threads that end what events wait of: none is lost, and none stays.
TEST_F(EventTest, ReadersAndDestructionAtOnceLoseNothing) {
  constexpr int kRounds = 300;
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  std::atomic<int> taken{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      // What comes at the end is taken too.
      for (bool last = false; !last;) {
        last = is_over;
        while (ibv_cq* cq = NextCq()) taken += cq == cq_ ? 1 : 0;
        std::this_thread::yield();
      }
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    ibv_cq* other = CreateCq();
    for (ibv_cq* cq : {other, cq_, other, cq_}) Complete(cq);
    EXPECT_EQ(ibv_destroy_cq(other), 0);
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(taken, 2 * kRounds);
  EXPECT_EQ(Waiting(), 0);
}

TEST_F(EventTest, APortEventNamesItsPort) {
  WriteRecord(daemon_->async_fd(), 1, IBV_EVENT_GID_CHANGE);
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
