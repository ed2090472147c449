// SPDX-License-Identifier: Apache-2.0
// The place where the control thread leaves work for a running worker.
#pragma once

#include <atomic>

#include "absl/functional/function_ref.h"
#include "pipeline/datapath/thread/semaphore.h"

namespace uroce::datapath {

/// Holds one request at a time: callers take turns outside.
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

}  // namespace uroce::datapath
