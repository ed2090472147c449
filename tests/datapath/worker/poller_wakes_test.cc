// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/poller_wakes.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <thread>

#include "pipeline/datapath/queue/wake_pace.h"
#include "tests/datapath/worker/parts.h"

namespace uroce::datapath {
namespace {

/// The rings of the endpoint's queues: sends have bit 1 of the word, receives bit 2.
class PollerWakesTest : public PartsTest {
 protected:
  static constexpr uint32_t kOfSends = 1, kOfReceives = 2;

  PollerWakesTest() { wakes_.Reserve(2); }
  uint32_t& word() { return endpoint_.pollers->value; }
  CompletionRing& sends() { return *endpoint_.qp->config().send_ring; }
  CompletionRing& receives() { return *endpoint_.qp->config().receive_ring; }
  void AddBoth() {
    word() = kOfSends | kOfReceives;
    wakes_.Add(sends(), kNow);
    wakes_.Add(receives(), kNow + Nanos(1));
  }

  static constexpr Nanos kNow{1'000'000};
  PollerWakes wakes_;
  Endpoint& endpoint_ = AddEndpoint(AddProgram());
};

TEST_F(PollerWakesTest, ATurnWithoutWorkWakes) {
  AddBoth();
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), 0u);
}

TEST_F(PollerWakesTest, ABusyWorkerWakesAfterAWhile) {
  AddBoth();
  wakes_.AfterTurn(/*busy=*/true, kNow + PollerWakes::kLongestDelay - Nanos(1));
  EXPECT_EQ(word(), kOfSends | kOfReceives);
  wakes_.AfterTurn(/*busy=*/true, kNow + PollerWakes::kLongestDelay);
  EXPECT_EQ(word(), 0u);
}

TEST_F(PollerWakesTest, ThreadsOfOtherQueuesSleepOn) {
  word() = kOfSends | kOfReceives;
  wakes_.Add(sends(), kNow);
  wakes_.Add(sends(), kNow);
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), kOfReceives);
  wakes_.Add(receives(), kNow);
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), 0u);
}

TEST_F(PollerWakesTest, NobodyIsWokenForAQueueThatHasGone) {
  AddBoth();
  wakes_.Remove(&sends());
  EXPECT_FALSE(sends().is_waking());
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_EQ(word(), kOfSends);
}

/// A thread that sleeps on the word, for so long at most.
class SleepingThread {
 public:
  SleepingThread(uroce_line32& word, timespec limit)
      : value_(rings::AnnouncePoller(word, 1)), thread_([this, &word, limit] {
          errno = 0;
          syscall(SYS_futex, &word.value, FUTEX_WAIT, value_, &limit, nullptr, 0);
          error_ = errno;
        }) {
    usleep(10'000);  // So that it sleeps, most of the time.
  }
  /// 0: woken. EAGAIN: it came too late to sleep. ETIMEDOUT.
  int Join() {
    thread_.join();
    return error_;
  }

 private:
  uint32_t value_;
  int error_ = 0;
  std::thread thread_;
};

TEST_F(PollerWakesTest, AThreadThatSleepsOnTheWordWakes) {
  SleepingThread sleeper(*endpoint_.pollers, {.tv_sec = 60, .tv_nsec = 0});
  wakes_.Add(sends(), kNow);
  wakes_.AfterTurn(/*busy=*/false, kNow);
  EXPECT_NE(sleeper.Join(), ETIMEDOUT);
}

TEST_F(PollerWakesTest, WhoseWakeUpsAreDearWaits) {
  WakePace pace;
  uroce_line32 word{};
  const Pollers pollers{.word = &word, .bit = 1, .pace = &pace};
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const Nanos now{int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
  pace.Account(now, Nanos(1'000'000'000'000), /*is_own_time=*/true);
  SleepingThread sleeper(word, {.tv_sec = 0, .tv_nsec = 50'000'000});
  EXPECT_TRUE(pollers.any());
  pollers.Wake();
  EXPECT_FALSE(pollers.any()) << "nor is it made up for";
  EXPECT_NE(sleeper.Join(), 0);
}

}  // namespace
}  // namespace uroce::datapath
