// SPDX-License-Identifier: Apache-2.0
// The threads of this library that access the program's memory for the daemon. While private pages
// are replaced they pause: to the registration of memory, a program that has no other threads is a
// program of one thread.
#pragma once

#include <stdint.h>

namespace uroce::memory {

/// A mutual exclusion of such threads and of the holder of the registry, which waits for a copy
/// only for a while: the copy may wait for a page of the program.
class OwnThreads {
 public:
  // ---- such a thread ----
  /// Counts a thread that was just started. The caller holds the registry.
  void Add() { __atomic_add_fetch(&count_, 1, __ATOMIC_RELAXED); }
  /// Called by a thread that ends; it enters no more.
  void Remove() { __atomic_sub_fetch(&count_, 1, __ATOMIC_RELAXED); }
  /// From a true result until Leave the thread may access memory of the heap and of the program,
  /// and at no other time.
  [[nodiscard]] bool TryEnter() { return Change(kFree, kInUse); }
  void Leave() { __atomic_store_n(&state_, kFree, __ATOMIC_RELEASE); }

  // ---- the holder of the registry ----
  uint32_t count() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }
  /// Makes all such threads pause, until Resume. False: one did not leave within some milliseconds.
  [[nodiscard]] bool Pause();
  /// Ends a pause, if there is one.
  void Resume();
  /// In a fork child, which has no such threads.
  void Forget();

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kInUse = 1;
  static constexpr uint32_t kPaused = 2;

  bool Change(uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(&state_, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
  }

  uint32_t state_ = kFree;
  uint32_t count_ = 0;
  bool is_paused_ = false;  // By the holder of the registry.
};

extern constinit OwnThreads g_own_threads;

}  // namespace uroce::memory
