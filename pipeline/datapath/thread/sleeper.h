// SPDX-License-Identifier: Apache-2.0
// Where a worker sleeps, and what wakes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/base/types.h"

struct epoll_event;

namespace uroce::datapath {

/// An epoll set with an eventfd of its own. Worker thread, but for Wake.
class Sleeper {
 public:
  Sleeper();
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// An eventfd: every write wakes, and none need be read.
  void WatchEvents(int fd);
  /// An fd that stays readable while there is something to do.
  void WatchReadable(int fd);
  void Unwatch(int fd);
  /// Until something wakes it or `limit` has passed; kNever for no limit. Up to kMaxEvents of the
  /// fds that had something, valid until the next call; the rest comes next time.
  std::span<const int> Sleep(Nanos limit);
  /// The same, without sleeping.
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
