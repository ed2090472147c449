// SPDX-License-Identifier: Apache-2.0
// Where a worker sleeps, and what wakes it.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

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
  /// Until something wakes it or `limit` has passed; kNever for no limit.
  void Sleep(Nanos limit);
  /// Ends the present or next Sleep. Any thread.
  void Wake();

 private:
  void Watch(int fd, uint32_t events);

  int epoll_fd_;
  int wake_fd_;
};

}  // namespace uroce::datapath
