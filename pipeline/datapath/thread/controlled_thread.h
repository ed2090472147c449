// SPDX-License-Identifier: Apache-2.0
// A thread that works in turns, and what another thread may ask of it between two of them.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"
#include "pipeline/datapath/thread/mailbox.h"
#include "pipeline/datapath/thread/semaphore.h"

namespace uroce::datapath {

/// Before Start and after Stop, Run executes on the owner's thread. The thread's main function
/// calls Serve once per turn and returns when must_stop says so.
class ControlledThread {
 public:
  /// `wake` ends the thread's sleep, where it sleeps.
  explicit ControlledThread(std::function<void()> wake) : wake_(std::move(wake)) {}
  ControlledThread(const ControlledThread&) = delete;
  ControlledThread& operator=(const ControlledThread&) = delete;

  // ---- the owner's thread ----
  void Start(std::function<void()> main);
  void Stop();
  /// Runs `work` between two turns and returns when it is done.
  void Run(absl::FunctionRef<void()> work);
  /// Has the thread stand still between two turns until Release. AwaitHold returns when it does.
  void Hold();
  void AwaitHold();
  void Release();

  // ---- the thread ----
  bool must_stop() const { return stop_.load(std::memory_order_relaxed); }
  bool HasRequest() const { return mailbox_.HasRequest(); }
  /// Serves a pending request. True: there was one.
  bool Serve() {
    if (!mailbox_.HasRequest()) return false;
    mailbox_.Serve();
    return true;
  }

 private:
  /// The request that Hold posts.
  struct StandStill {
    void operator()() const {
      held.Release();
      released.Acquire();
    }
    mutable Semaphore held;
    mutable Semaphore released;
  };

  const std::function<void()> wake_;
  std::thread thread_;
  std::atomic<bool> running_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // Callers of Run and Hold take turns.
  Mailbox mailbox_;
  StandStill stand_still_;
  absl::FunctionRef<void()> stand_still_request_ = stand_still_;
};

}  // namespace uroce::datapath
