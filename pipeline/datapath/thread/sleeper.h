// SPDX-License-Identifier: Apache-2.0
// How a worker's thread idles: when it goes to sleep, and what wakes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "pipeline/base/cpu.h"
#include "pipeline/base/types.h"

struct epoll_event;

namespace uroce::datapath {

// Decides when a worker that finds nothing to do polls on, yields or sleeps, and how long. Pure.

enum class IdleStep : uint8_t { kPoll, kYield, kSleep };

/// An idle worker polls, then yields, then sleeps. That costs others on the same core least, and a
/// waiting program next to nothing (measured: 80 ns one way against 4 ms without the yield).
/// Where other threads want the core (cpu::Contention), it polls and then sleeps at once. Measured
/// with 16 ready threads on two processors: a WRITE took 9 ms with yields, and 30 us without.
class IdlePolicy {
 public:
  static constexpr uint32_t kPollsBeforeYield = 16;
  /// Bounds of a sleep when a port cannot wake the worker: short after traffic, long after a second
  /// without traffic.
  static constexpr Nanos kShortestPoll{50'000};
  static constexpr Nanos kLongestPoll{1'000'000};

  explicit IdlePolicy(Nanos spin_before_sleep) : spin_(spin_before_sleep) {}

  /// What to do after a turn that began at `now`. A worker that was woken and finds nothing sleeps
  /// again at once.
  IdleStep AfterTurn(bool busy, Nanos now) {
    if (yielded_at_ != kNever) contention_.OnYield((now - yielded_at_).count(), now.count());
    yielded_at_ = kNever;
    if (busy) {
      empty_turns_ = 0;
      idle_since_ = now;
      return IdleStep::kPoll;
    }
    if (now - idle_since_ > spin_) return IdleStep::kSleep;
    if (++empty_turns_ <= kPollsBeforeYield) return IdleStep::kPoll;
    if (!contention_.MayYield(now.count())) return IdleStep::kSleep;
    yielded_at_ = now;
    return IdleStep::kYield;
  }

  /// The longest time to sleep when some port only wakes by timer.
  Nanos PollInterval(Nanos now) const {
    const Nanos quiet((now - idle_since_).count() / 1000);
    return std::clamp(quiet, kShortestPoll, kLongestPoll);
  }

 private:
  Nanos spin_;
  Nanos idle_since_;
  Nanos yielded_at_ = kNever;  ///< When the turn before the last yield began.
  uint32_t empty_turns_ = 0;
  cpu::Contention contention_;
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
