// SPDX-License-Identifier: Apache-2.0
// Threads that the program cancels. Verbs are no cancellation points, except those that wait for an
// event: with libibverbs a post or a poll makes no system call. A thread that ended within one
// would keep the lock of its queue.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "pipeline/shm/rings/doorbells.h"
#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class CancelTest : public ShimTest {
 protected:
  ibv_sge sge_{0x4000, 32, 5};

  /// Calls `work` on a thread that is cancelled at its next cancellation point. True: there was
  /// none in `work`.
  static bool Survives(std::function<void()> work) {
    struct Run {
      std::function<void()> work;
      bool is_over = false;
    } run{std::move(work)};
    pthread_t thread;
    EXPECT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void* argument) -> void* {
                    auto* its = static_cast<Run*>(argument);
                    pthread_cancel(pthread_self());
                    its->work();
                    its->is_over = true;
                    pthread_testcancel();
                    return nullptr;
                  },
                  &run),
              0);
    void* result = nullptr;
    EXPECT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED) << "the cancellation was forgotten";
    return run.is_over;
  }

  /// The worker sleeps: the next doorbell is a system call.
  void PutWorkerToSleep() {
    (void)rings::Take(daemon_->doorbells(), [](uint32_t) {});
    ASSERT_TRUE(rings::AnnounceSleep(daemon_->doorbells()));
  }
  uint64_t Wakes() const {
    uint64_t wakes = 0;
    return read(daemon_->wake_fd(), &wakes, sizeof(wakes)) == 8 ? wakes : 0;
  }
};

TEST_F(CancelTest, APostThatWakesTheWorker) {
  PutWorkerToSleep();
  EXPECT_TRUE(Survives([this] { EXPECT_EQ(Post(Write(1, &sge_)), 0); }));
  EXPECT_EQ(Wakes(), 1u);
  EXPECT_EQ(Post(Write(2, &sge_)), 0) << "the queue's lock is free";
}

TEST_F(CancelTest, AReceiveThatIsPostedInError) {
  PutWorkerToSleep();
  rings::StoreRelease(fake_qp().page->state.value, uint32_t{IBV_QPS_ERR});
  EXPECT_TRUE(Survives([this] { EXPECT_EQ(PostReceive(1), 0); }));
  EXPECT_EQ(Wakes(), 1u);
  EXPECT_EQ(PostReceive(2), 0);
}

TEST_F(CancelTest, PollsThatFindNothing) {
  EXPECT_TRUE(Survives([this] {
    ibv_wc wc;
    for (int i = 0; i < 20'000; ++i) EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  }));
  EXPECT_TRUE(PollAll().empty());
}

TEST_F(CancelTest, TheEndOfAQueueWithUnreadEvents) {
  ibv_cq* other = ibv_create_cq(context_, 4, nullptr, channel_, 0);
  FakeCq& fake = daemon_->cq(other->handle);
  ++fake.comp_events_reported;
  const uroce_event_record record{fake.request.user_handle, UROCE_EVENT_COMPLETION, 0};
  ASSERT_EQ(write(daemon_->channel_fd(), &record, sizeof(record)),
            static_cast<ssize_t>(sizeof(record)));
  EXPECT_TRUE(Survives([other] { EXPECT_EQ(ibv_destroy_cq(other), 0); }));
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), -1) << "the stream's lock is free";
}

TEST_F(CancelTest, TheEndOfAChannel) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  EXPECT_TRUE(Survives([channel] { EXPECT_EQ(ibv_destroy_comp_channel(channel), 0); }));
  channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0) << "the context's lock is free";
}

// Programs end their event threads so.
TEST_F(CancelTest, AThreadThatWaitsForAnEventEnds) {
  struct Waiter {
    ibv_comp_channel* channel;
    std::atomic<bool> has_begun{false};
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
  } waiter{channel_};
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void* argument) -> void* {
                  // No locals with an address: AddressSanitizer does not see that they end.
                  auto* its = static_cast<Waiter*>(argument);
                  its->has_begun = true;
                  ibv_get_cq_event(its->channel, &its->cq, &its->cq_context);
                  return nullptr;
                },
                &waiter),
            0);
  while (!waiter.has_begun) sched_yield();
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

}  // namespace
}  // namespace uroce::shim_test
