// SPDX-License-Identifier: Apache-2.0
// How a worker's thread idles: when it goes to sleep, and what wakes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "pipeline/base/spin.h"
#include "pipeline/base/types.h"

struct epoll_event;

namespace uroce::datapath {

// Decides when a worker that finds nothing to do polls on, yields or sleeps, and how long. Pure.

/// How a worker idles: see SpinPolicy.
class IdlePolicy {
 public:
  /// Bounds of a sleep when a port cannot wake the worker: short after traffic, long after a second
  /// without traffic.
  static constexpr Nanos kShortestPoll{50'000};
  static constexpr Nanos kLongestPoll{1'000'000};

  /// What to do after a turn that began at `now`. A worker that was woken and finds nothing sleeps
  /// again at once.
  IdleStep AfterTurn(bool busy, Nanos now, Nanos spin_before_sleep) {
    return spin_.AfterLook(busy, now.count(), spin_before_sleep.count());
  }

  /// The longest time to sleep when some port only wakes by timer.
  Nanos PollInterval(Nanos now) const {
    const Nanos quiet((now.count() - spin_.idle_since_ns()) / 1000);
    return std::clamp(quiet, kShortestPoll, kLongestPoll);
  }

 private:
  SpinPolicy spin_;
};

// Sleep, until a file descriptor, another thread or a deadline wakes the worker.

/// An epoll set with its own eventfd. Used by the worker's thread, except Wake.
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
