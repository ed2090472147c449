// SPDX-License-Identifier: Apache-2.0
// Lets a worker sleep until a file descriptor, another thread or a deadline wakes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/base/types.h"

struct epoll_event;

namespace uroce::datapath {

/// An epoll set with an eventfd of its own. Used by the worker's thread, except Wake.
class Sleeper {
 public:
  Sleeper();
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// Watches an eventfd: every write wakes the worker, and nothing needs to be read.
  void WatchEvents(int fd);
  /// Watches an fd that stays readable while there is something to do.
  void WatchReadable(int fd);
  void Unwatch(int fd);
  /// Sleeps until something wakes the worker or `limit` has passed; kNever for no limit. Returns up
  /// to kMaxEvents of the ready fds, valid until the next call, which returns the others.
  std::span<const int> Sleep(Nanos limit);
  /// Returns the same as Sleep, without sleeping.
  std::span<const int> Look();
  /// Ends the present or next Sleep. Any thread.
  void Wake();

  static constexpr int kMaxEvents = 16;

 private:
  void Watch(int fd, uint32_t events);
  std::span<const int> Take(std::span<const epoll_event> events);

  int epoll_fd_;
  int wake_fd_;
  std::array<int, kMaxEvents> ready_{};
};

}  // namespace uroce::datapath
