// SPDX-License-Identifier: Apache-2.0
// Replaces a C++ library in the shim: the shim runs inside programs of others and needs only
// libc.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <new>  // Placement only; declares, needs no library.

namespace uroce::shim {

/// Makes a zeroed and constructed object in cache lines of its own, or returns null. `Free` frees
/// it; T needs no destructor.
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
/// cancellation points, except those that wait for an event: programs hold locks of their own
/// around them, and a thread that ends inside keeps the shim's.
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

/// Writes one line to stderr, if UROCE_LOG is set and not 0. Keeps errno.
void Log(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// Writes the line in any case: for what a user must know who sees only that there is no device.
void Warn(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Sets errno to `error` and returns null: the result of verbs that fail to make an object.
inline decltype(nullptr) FailWith(int error) {
  errno = error;
  return nullptr;
}

}  // namespace uroce::shim
