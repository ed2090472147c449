// SPDX-License-Identifier: Apache-2.0
// Work that may take long, or for ever, off the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/base/side_thread.h"

namespace uroce {

/// BackgroundTasks are done on side threads, that nobody waits for. Control thread.
class BackgroundTasks {
 public:
  using Id = uint64_t;

  explicit BackgroundTasks(EventLoop& loop);
  /// BackgroundTasks under way go on, and are destroyed with all they hold on their own threads.
  ~BackgroundTasks();
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  /// Runs `work` on `thread`, or without it on one of its own, then `done` on this one. Both are
  /// destroyed on this one. Where the system refuses another thread, the background task waits for
  /// one.
  Id Start(std::function<void()> work, std::function<void()> done,
           std::shared_ptr<SideThread> thread = nullptr);
  /// `done` will not be called. The work goes on.
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
  std::vector<std::shared_ptr<SideThread>> refused_;  ///< By the system, so far.
  EventLoop::Id retry_ = 0;
};

}  // namespace uroce
