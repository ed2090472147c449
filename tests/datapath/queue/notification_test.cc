// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/notification.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/datapath/queue/record_stream.h"

namespace uroce::datapath {
namespace {

class WakePaceTest : public testing::Test {
 protected:
  static constexpr Nanos kNow{1'000'000'000};
  static constexpr Nanos kDear = WakePace::kCheap * 10;
};

TEST_F(WakePaceTest, WhatSeemsDearIsMeasuredByTheThreadsOwnClockFirst) {
  WakePace pace;
  pace.Account(kNow, kDear, false);
  EXPECT_TRUE(pace.MayWake(kNow)) << "another thread may have run";
  EXPECT_TRUE(pace.is_suspected());
  pace.Account(kNow, WakePace::kCheap, true);
  EXPECT_TRUE(pace.MayWake(kNow));
  EXPECT_FALSE(pace.is_suspected());
}

TEST_F(WakePaceTest, AfterADearWakeUpTheNextWaitForManyTimesAsLong) {
  WakePace pace;
  pace.Account(kNow, kDear, false);
  pace.Account(kNow, kDear, true);
  EXPECT_FALSE(pace.MayWake(kNow + kDear * WakePace::kRest - Nanos(1)));
  EXPECT_TRUE(pace.MayWake(kNow + kDear * WakePace::kRest));
  EXPECT_TRUE(pace.is_suspected()) << "until one is cheap";
}

TEST_F(WakePaceTest, ManyCheapWakeUpsNeedNoRest) {
  WakePace pace;
  for (int i = 0; i < 1000; ++i) pace.Account(kNow, WakePace::kCheap, false);
  EXPECT_TRUE(pace.MayWake(kNow));
  EXPECT_FALSE(pace.is_suspected());
}

// What a record costs the worker that sends it is the program's to decide: its user pays for it.

// Some 100 ns each: ten times what a record may take.
constexpr int kWatchers = 3900;  // Their fds fit the usual hard limit of 4,096.

// Each watcher is one more that a record wakes.
class Watchers {
 public:
  Watchers(int fd, int count) : epoll_fd_(epoll_create1(0)) {
    for (int i = 0; i < count; ++i) {
      fds_.push_back(fcntl(fd, F_DUPFD, 0));
      epoll_event event{.events = EPOLLIN, .data = {}};
      EXPECT_EQ(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fds_.back(), &event), 0);
    }
  }
  ~Watchers() {
    for (const int fd : fds_) close(fd);
    close(epoll_fd_);
  }
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;
  /// Has the kernel look at each once more.
  void Take() const {
    std::vector<epoll_event> events(fds_.size());
    epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  }

 private:
  int epoll_fd_;
  std::vector<int> fds_;
};

TEST(RecordSocketTest, AProgramWhoseRecordsWakeThousandsHasFewer) {
  const RecordStream stream;
  const RecordStream other;
  WakePace pace;
  const RecordSocket socket{stream.writer(), &pace};
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const Watchers watchers(stream.reader(), kWatchers);
  const RecordSocket second{other.writer(), &pace};
  // The wait is of real time, and may end while this thread has no CPU: then another one begins.
  bool second_waits = false;
  for (int tries = 0; tries < 20 && !second_waits; ++tries) {
    const auto begin = std::chrono::steady_clock::now();
    int written = 0;
    for (; written < 100 && socket.Write(1, UROCE_EVENT_COMPLETION); ++written) {
      stream.Drain();
      watchers.Take();
    }
    const auto waits = (std::chrono::steady_clock::now() - begin) /
                       std::chrono::nanoseconds((WakePace::kCheap * WakePace::kRest).count());
    EXPECT_LE(written, 3 + waits) << "one raises suspicion, one is measured, then it waits";
    other.Drain();
    second_waits = !second.Write(1, UROCE_EVENT_COMPLETION) && !other.Read();
  }
  EXPECT_TRUE(second_waits) << "the user's others wait too";
}

TEST(RecordSocketTest, WhatNobodyReadsAnyMoreIsTaken) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[0]);
  EXPECT_TRUE(RecordSocket{ends[1]}.Write(1, UROCE_EVENT_COMPLETION));
  EXPECT_TRUE(RecordSocket{}.Write(1, UROCE_EVENT_COMPLETION)) << "where there is none";
  close(ends[1]);
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
