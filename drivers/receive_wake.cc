// SPDX-License-Identifier: Apache-2.0
#include "drivers/receive_wake.h"

#include <sys/epoll.h>
#include <unistd.h>

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

void ReceiveWake::RemoveAll() {
  for (const int fd : fds_) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  fds_.clear();
}

void ReceiveWake::Drain() {
  constexpr int kMostEvents = 16;
  epoll_event events[kMostEvents];
  while (epoll_wait(epoll_fd_, events, kMostEvents, 0) == kMostEvents) {
  }
}

}  // namespace uroce::drivers
