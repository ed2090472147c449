// SPDX-License-Identifier: Apache-2.0
// What the shim uses in place of a C++ library: it lives in strangers' processes and needs libc
// alone.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <new>  // Placement only; declares, needs no library.

namespace uroce::shim {

/// Zeroed, constructed object of its own cache lines, or null. `Free` ends it; T needs no
/// destructor.
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

/// What a clock shows.
uint64_t ClockNs(clockid_t clock);

/// Puts errno back as it was: calls that succeed leave it alone.
class ErrnoKeeper {
 public:
  ErrnoKeeper();
  ~ErrnoKeeper();
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

/// One line to stderr, when UROCE_LOG is set and not 0. Keeps errno.
void Log(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Sets errno to `error` and returns null: how verbs that make objects fail.
inline decltype(nullptr) FailWith(int error) {
  errno = error;
  return nullptr;
}

}  // namespace uroce::shim
