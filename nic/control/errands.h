// SPDX-License-Identifier: Apache-2.0
// Work that may take long, or for ever, off the control thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "nic/control/event_loop.h"

namespace uroce::nic {

/// Each errand has a thread of its own, that nobody waits for. Control thread.
class Errands {
 public:
  using Id = uint64_t;

  explicit Errands(EventLoop& loop);
  /// Errands under way go on, and are destroyed with all they hold on their own threads.
  ~Errands();
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  /// Runs `work` on a thread, then `done` on this one. Both are destroyed on this one. Where the
  /// system refuses another thread, the errand waits for one.
  Id Start(std::function<void()> work, std::function<void()> done);
  /// `done` will not be called. The work goes on.
  void Cancel(Id id);

 private:
  struct Mailbox;
  struct Errand {
    std::function<void()> work;
    std::function<void()> done;
  };

  void OnFinished();
  /// False: there is no thread for it.
  bool Launch(Id id, Errand* errand);
  void LaunchWaiting();

  EventLoop& loop_;
  std::shared_ptr<Mailbox> mailbox_;  ///< Threads that outlive this object still post to it.
  EventLoop::Id watch_;
  Id next_id_ = 1;
  std::map<Id, std::unique_ptr<Errand>> errands_;
  std::deque<Id> waiting_;
  EventLoop::Id retry_ = 0;
};

}  // namespace uroce::nic
