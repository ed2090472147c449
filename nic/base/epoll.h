// SPDX-License-Identifier: Apache-2.0
// A set of file descriptors. Its own descriptor is readable when any of the set is.
#pragma once

#include <sys/epoll.h>

#include "nic/base/fd.h"

namespace uroce {

/// `fd` is readable while one of its fds is.
class Epoll {
 public:
  /// Adds `fd`. No effect when the set has it already.
  void Add(int fd) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  /// Removes `fd`. No effect when the set does not have it.
  void Remove(int fd) const { epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  int fd() const { return fd_.get(); }

 private:
  const Fd fd_{epoll_create1(EPOLL_CLOEXEC)};
};

}  // namespace uroce
