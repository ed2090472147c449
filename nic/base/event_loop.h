// SPDX-License-Identifier: Apache-2.0
// The control thread's loop: file descriptors and timers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "nic/base/fd.h"
#include "nic/base/timers.h"
#include "pipeline/base/types.h"

struct epoll_event;

namespace uroce {

/// One thread. Callbacks may watch, forget and cancel anything, themselves included.
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

  /// Waits for at most `limit_ms`; returns how many of `events` have come, or -1.
  int Wait(epoll_event* events, int size, int limit_ms) const;
  int TimeoutMs(int limit_ms) const;
  void FireTimers();

  Fd epoll_;
  Id next_id_ = 1;
  bool stopped_ = false;
  uint64_t turn_ = 0;
  Nanos busy_at_;  ///< When an event came last.
  absl::flat_hash_map<Id, Watched> watched_;
  Timers timers_;
  absl::flat_hash_map<Id, Timers::iterator> timer_places_;  ///< Thousands may be cancelled at once.
};

}  // namespace uroce
