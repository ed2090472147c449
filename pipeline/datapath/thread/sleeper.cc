// SPDX-License-Identifier: Apache-2.0
// How a worker's thread idles: when it goes to sleep, and what wakes it.
#include "pipeline/datapath/thread/sleeper.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace uroce::datapath {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kNanosPerMilli = 1'000'000;
// The longest sleep without another look.
constexpr Nanos kLongestSleep{60 * kNanosPerSecond};

// A port's socket keeps the error of an interface that went down until the error is read. Until
// then the socket would wake its worker all the time.
void ClearError(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
}

}  // namespace

Sleeper::Sleeper()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WatchEvents(wake_fd_);
}

Sleeper::~Sleeper() {
  close(wake_fd_);
  close(epoll_fd_);
}

// Edge triggered: each write to an eventfd wakes, though its counter is never read.
void Sleeper::WatchEvents(int fd) { Watch(fd, EPOLLIN | EPOLLET); }

void Sleeper::WatchReadable(int fd) { Watch(fd, EPOLLIN); }

void Sleeper::Watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
}

void Sleeper::Unwatch(int fd) { epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr); }

std::span<const int> Sleeper::Sleep(Nanos limit) {
  if (limit <= Nanos(0)) return {};
  const int64_t ns = std::min(limit, kLongestSleep).count();
  const timespec timeout{.tv_sec = ns / kNanosPerSecond, .tv_nsec = ns % kNanosPerSecond};
  epoll_event events[kMaxEvents];
  int count = epoll_pwait2(epoll_fd_, events, kMaxEvents, &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {
    // Kernels before 5.11 take whole milliseconds.
    count = epoll_wait(epoll_fd_, events, kMaxEvents,
                       static_cast<int>((ns + kNanosPerMilli - 1) / kNanosPerMilli));
  }
  return Take({events, static_cast<size_t>(std::max(count, 0))});
}

std::span<const int> Sleeper::Look() {
  epoll_event events[kMaxEvents];
  const int count = epoll_wait(epoll_fd_, events, kMaxEvents, 0);
  return Take({events, static_cast<size_t>(std::max(count, 0))});
}

std::span<const int> Sleeper::Take(std::span<const epoll_event> events) {
  for (size_t i = 0; i < events.size(); ++i) {
    ready_[i] = events[i].data.fd;
    if ((events[i].events & EPOLLERR) != 0) ClearError(ready_[i]);
  }
  return {ready_.data(), events.size()};
}

void Sleeper::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

}  // namespace uroce::datapath
