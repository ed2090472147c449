// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/wake.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace uroce::drivers {

ReceiveWake::ReceiveWake() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {}

ReceiveWake::~ReceiveWake() { close(epoll_fd_); }

bool ReceiveWake::Add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = fd;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return false;
  fds_.push_back(fd);
  return true;
}

bool ReceiveWake::AddLate(int fd) {
  if (!Add(fd)) return false;
  late_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  return true;
}

// An fd with an error only, such as that of a detached queue, has no frames.
bool ReceiveWake::IsLate() {
  if (late_.empty() || poll(late_.data(), late_.size(), 0) <= 0) return false;
  return std::ranges::any_of(late_, [](const pollfd& fd) { return (fd.revents & POLLIN) != 0; });
}

void ReceiveWake::RemoveAll() {
  for (const int fd : fds_) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  fds_.clear();
  late_.clear();
}

void ReceiveWake::Drain() {
  constexpr int kMostEvents = 16;
  epoll_event events[kMostEvents];
  while (epoll_wait(epoll_fd_, events, kMostEvents, 0) == kMostEvents) {
  }
}

Bell::Bell() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Bell::Ring() {
  if (!asleep_.exchange(false, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void Bell::TakeBack() {
  asleep_.store(false, std::memory_order_relaxed);
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &rings, sizeof(rings));
}

}  // namespace uroce::drivers
