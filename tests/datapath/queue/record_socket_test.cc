// SPDX-License-Identifier: Apache-2.0
// What a record costs the worker that sends it is the program's to decide: its user pays for it.
#include "pipeline/datapath/queue/notification.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "tests/datapath/queue/record_stream.h"

namespace uroce::datapath {
namespace {

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

}  // namespace
}  // namespace uroce::datapath
