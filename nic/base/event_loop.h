// SPDX-License-Identifier: Apache-2.0
// The loop of the control thread: file descriptors, timers, and tasks that run on side threads and
// report to the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pipeline/base/observation.h"
#include "pipeline/base/types.h"
#include "pipeline/os/clock.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"

struct epoll_event;

namespace uroce {

/// Time and timers of one thread. The event loop implements them, and so do tests that set the
/// time. Callbacks may start and cancel any timer.
class Timers {
 public:
  using Id = uint64_t;

  virtual ~Timers() = default;
  /// The monotonic time.
  virtual Nanos Now() const = 0;
  /// Calls `callback` once, after `delay`, and never from within this call. Ids are never 0.
  virtual Id After(Nanos delay, std::function<void()> callback) = 0;
  /// Cancels a timer. No effect on one that has fired, or on 0.
  virtual void Cancel(Id id) = 0;
};

/// The control thread's loop. Callbacks may watch, forget and cancel anything, themselves included.
class EventLoop final : public Timers {
 public:
  EventLoop();

  /// Calls `callback` whenever `fd` has one of the epoll `events`. The caller owns the fd.
  Id Watch(int fd, uint32_t events, std::function<void()> callback);
  /// Changes the events of a watched fd; 0 pauses it.
  void SetEvents(Id id, uint32_t events);
  void Forget(Id id);

  // ---- Timers ----
  Nanos Now() const override;
  Id After(Nanos delay, std::function<void()> callback) override;
  void Cancel(Id id) override;

  /// Runs until Stop.
  void Run();
  void Stop() { stopped_ = true; }
  /// Waits once, at most `timeout_ms`, and calls the callbacks of what came.
  void RunOnce(int timeout_ms);
  /// The number of waits so far.
  uint64_t turn() const { return turn_; }
  /// How long the turns took in which something had come: from the end of the wait to the last
  /// callback. Of a turn of a millisecond or more, the time is left out in which the thread waited
  /// for a CPU; if it has not slept in the turn, also the time that the host took.
  const TurnHistogram& turn_ns() const { return turn_ns_; }
  uint64_t longest_turn_ns() const { return longest_turn_ns_; }

 private:
  struct Watched {
    int fd;
    std::shared_ptr<std::function<void()>> callback;
  };
  struct Timer {
    Id id;
    std::function<void()> callback;
  };
  using Timers = std::multimap<Nanos, Timer>;
  /// Of the thread that runs the loop.
  struct ThreadTimes {
    Nanos cpu;
    Nanos delay;
    int64_t sleeps;
    Nanos wall;
  };

  /// Waits for at most `limit_ms`; returns how many of `events` have come, or -1.
  int Wait(epoll_event* events, int size, int limit_ms) const;
  int TimeoutMs(int limit_ms) const;
  /// Returns whether any timer was due.
  bool FireTimers();
  ThreadTimes ReadTimes() const;
  void CountTurn(const ThreadTimes& begin, Nanos end);

  Fd epoll_;
  Id next_id_ = 1;
  bool stopped_ = false;
  uint64_t turn_ = 0;
  Nanos busy_at_;  ///< When an event came last.
  RunDelay run_delay_;
  bool has_run_ = false;
  TurnHistogram turn_ns_;
  uint64_t longest_turn_ns_ = 0;
  absl::flat_hash_map<Id, Watched> watched_;
  Timers timers_;
  absl::flat_hash_map<Id, Timers::iterator> timer_places_;  ///< Thousands may be cancelled at once.
};

/// Runs work that may block without limit on side threads; no thread waits for these. Control
/// thread.
class BackgroundTasks {
 public:
  using Id = uint64_t;

  explicit BackgroundTasks(EventLoop& loop);
  /// Tasks under way continue. They are destroyed with all they hold on their own threads.
  ~BackgroundTasks();
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  /// Runs `work` on `thread`, or when that is null on a new one, and then `done` on this thread.
  /// Both are destroyed on this thread. Where the system refuses another thread, the task waits for
  /// one.
  Id Start(std::function<void()> work, std::function<void()> done,
           std::shared_ptr<SideThread> thread = nullptr);
  /// Cancels the call of `done`. The work continues.
  void Cancel(Id id);

 private:
  struct Mailbox;
  struct Task {
    std::function<void()> work;
    std::function<void()> done;
  };

  void OnFinished();
  void LaunchRefused();

  EventLoop& loop_;
  std::shared_ptr<Mailbox> mailbox_;  ///< Threads that outlive this object still post to it.
  EventLoop::Id watch_;
  Id next_id_ = 1;
  std::map<Id, std::unique_ptr<Task>> tasks_;
  std::vector<std::shared_ptr<SideThread>> refused_;  ///< The system has refused them so far.
  EventLoop::Id retry_ = 0;
};

}  // namespace uroce
