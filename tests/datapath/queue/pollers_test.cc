// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/notification.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <thread>

namespace uroce::datapath {
namespace {

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

class PollersTest : public testing::Test {
 protected:
  uroce_line32 word_{};
  WakePace pace_;
  const Pollers pollers_{.word = &word_, .bit = 1, .pace = &pace_};
};

TEST_F(PollersTest, AQueueWithoutAWordHasNone) { EXPECT_FALSE(Pollers{}.any()); }

TEST_F(PollersTest, AThreadThatSleepsOnTheWordWakes) {
  SleepingThread sleeper(word_, {.tv_sec = 60, .tv_nsec = 0});
  EXPECT_TRUE(pollers_.any());
  pollers_.Wake();
  EXPECT_FALSE(pollers_.any());
  EXPECT_NE(sleeper.Join(), ETIMEDOUT);
}

TEST_F(PollersTest, WhoseWakeUpsAreDearWaits) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const Nanos now{int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
  pace_.Account(now, Nanos(1'000'000'000'000), /*is_own_time=*/true);
  SleepingThread sleeper(word_, {.tv_sec = 0, .tv_nsec = 50'000'000});
  pollers_.Wake();
  EXPECT_FALSE(pollers_.any()) << "nor is it made up for";
  EXPECT_NE(sleeper.Join(), 0);
}

}  // namespace
}  // namespace uroce::datapath
