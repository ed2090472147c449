// SPDX-License-Identifier: Apache-2.0
// Runs work that may take long, or for ever, outside the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/base/side_thread.h"

namespace uroce {

/// Tasks run on side threads, which nobody waits for. Control thread.
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
