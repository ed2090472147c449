// SPDX-License-Identifier: Apache-2.0
// Work that the control thread hands to a running worker.
#pragma once

#include <atomic>
#include <semaphore>

#include "absl/functional/function_ref.h"

namespace uroce::datapath {

/// One request at a time: callers take turns outside.
class Mailbox {
 public:
  /// Control: posts `work`; the worker must be woken if it sleeps. Then WaitDone.
  void Post(absl::FunctionRef<void()>& work) { request_.store(&work, std::memory_order_seq_cst); }
  void WaitDone() { done_.acquire(); }

  /// Worker: one load a turn.
  bool HasRequest() const { return request_.load(std::memory_order_relaxed) != nullptr; }
  void Serve() {
    absl::FunctionRef<void()>* const work = request_.exchange(nullptr, std::memory_order_acquire);
    if (work == nullptr) return;
    (*work)();
    done_.release();
  }

 private:
  std::atomic<absl::FunctionRef<void()>*> request_{nullptr};
  std::binary_semaphore done_{0};
};

}  // namespace uroce::datapath
