// SPDX-License-Identifier: Apache-2.0
// A thread that runs work for a control thread between two of its turns, or stands still on
// request.
#pragma once

#include <rte_pause.h>
#include <semaphore.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"

namespace uroce::datapath {

/// A binary semaphore: one thread waits until another has done something for it. Acquire waits for
/// Release: it polls for a short time and then sleeps. It does not yield, unlike
/// std::binary_semaphore: a yield costs time slices of others (IdlePolicy).
class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void Release() { sem_post(&semaphore_); }
  void Acquire() {
    for (int i = 0; i < kPolls; ++i) {
      if (sem_trywait(&semaphore_) == 0) return;
      rte_pause();
    }
    while (sem_wait(&semaphore_) != 0) continue;  // A signal came.
  }

 private:
  static constexpr int kPolls = 100;  // Some microseconds: as long as a worker's turn takes.

  sem_t semaphore_;
};

/// The place where the control thread leaves work for a running worker. Holds one request at a
/// time: callers take turns outside.
class Mailbox {
 public:
  /// Control: posts `work`; the worker must be woken if it sleeps. Then WaitDone.
  void Post(absl::FunctionRef<void()>& work) { request_.store(&work, std::memory_order_seq_cst); }
  void WaitDone() { done_.Acquire(); }

  /// Worker: one load a turn.
  bool HasRequest() const { return request_.load(std::memory_order_relaxed) != nullptr; }
  void Serve() {
    absl::FunctionRef<void()>* const work = request_.exchange(nullptr, std::memory_order_acquire);
    if (work == nullptr) return;
    (*work)();
    done_.Release();
  }

 private:
  std::atomic<absl::FunctionRef<void()>*> request_{nullptr};
  Semaphore done_;
};

/// A thread that works in turns, and what another thread may ask of it between two of them.
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
