// SPDX-License-Identifier: Apache-2.0
// Replaces a C++ library in the shim, which runs inside programs of others and needs only libc:
// objects, scopes, clocks, and the lock of one queue.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/single_threaded.h>
#include <time.h>

#include <new>  // Placement only; declares, needs no library.

#include "pipeline/base/cpu.h"

namespace uroce::shim {

/// Makes a zeroed and constructed object that shares no cache line with others, or returns null.
/// `Free` frees it; T needs no destructor.
template <typename T>
T* Make() {
  constexpr size_t kLine = 64;
  void* memory = nullptr;
  const size_t bytes = (sizeof(T) + kLine - 1) / kLine * kLine;
  if (posix_memalign(&memory, kLine, bytes) != 0) return nullptr;
  __builtin_memset(memory, 0, bytes);
  return new (memory) T();
}

inline void Free(void* object) { free(object); }

/// Holds a pthread mutex for a scope.
class MutexLock {
 public:
  explicit MutexLock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~MutexLock() { pthread_mutex_unlock(&mutex_); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

/// Keeps the thread from being cancelled in a scope that makes system calls. Verbs are no
/// cancellation points, except those that wait for an event: programs hold their locks around them,
/// and a thread that ends inside keeps the shim's.
class CancelOff {
 public:
  CancelOff() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old_); }
  ~CancelOff() { pthread_setcancelstate(old_, nullptr); }
  CancelOff(const CancelOff&) = delete;
  CancelOff& operator=(const CancelOff&) = delete;

 private:
  int old_;
};

/// The time of a clock in nanoseconds.
uint64_t ClockNs(clockid_t clock);

/// Restores errno at the end of its scope: calls that succeed do not change it.
class ErrnoKeeper {
 public:
  ErrnoKeeper();
  ~ErrnoKeeper();
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

/// Whether UROCE_ONLY has the program see our devices alone. Keeps errno.
bool HidesOtherDevices();

/// Writes one line to stderr, if UROCE_LOG is set and not 0. Keeps errno.
void Log(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// Writes the line in any case: for what a user must know who sees only that there is no device.
void Warn(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Sets errno to `error` and returns null: the result of verbs that fail to make an object.
inline decltype(nullptr) FailWith(int error) {
  errno = error;
  return nullptr;
}

// ---- The lock of one queue ----
// Verbs are thread safe per object, and post and poll must not block.

/// Held for some tens of nanoseconds, and while a post copies payload (send_copies.h). Uses no
/// locked instruction while the process has one thread. A waiter soon yields its core: the holder
/// may have been preempted.
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
