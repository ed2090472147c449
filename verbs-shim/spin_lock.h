// SPDX-License-Identifier: Apache-2.0
// The lock of one queue. Verbs are thread safe per object, and post and poll must not block.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#include "pipeline/cpu/fences.h"

namespace uroce::shim {

/// Held for some tens of nanoseconds. Uses no locked instruction while the process has one thread.
/// A waiter soon yields its core: the holder may have been preempted.
class SpinLock {
 public:
  void Lock() {
    // No thread starts between Lock and Unlock: no code between them starts one.
    if (__libc_single_threaded) {
      __atomic_store_n(&held_, 1, __ATOMIC_RELAXED);
      return;
    }
    while (__atomic_exchange_n(&held_, 1, __ATOMIC_ACQUIRE) != 0) WaitUntilFree();
  }
  void Unlock() { __atomic_store_n(&held_, 0, __ATOMIC_RELEASE); }

 private:
  void WaitUntilFree() {
    constexpr int kSpinsBeforeYield = 32;
    for (int spins = 0; __atomic_load_n(&held_, __ATOMIC_RELAXED) != 0; ++spins) {
      if (spins < kSpinsBeforeYield) {
        cpu::Pause();
      } else {
        sched_yield();
      }
    }
  }

  uint32_t held_ = 0;
};

/// Holds a SpinLock for a scope.
class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.Lock(); }
  ~SpinGuard() { lock_.Unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace uroce::shim
