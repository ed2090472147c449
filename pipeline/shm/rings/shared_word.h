// SPDX-License-Identifier: Apache-2.0
// Access to words and blocks that another process may change at any moment. Freestanding: uses
// compiler builtins only, so that liburoce.so needs no library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pipeline/base/cpu.h"

namespace uroce::rings {

template <typename Word>
inline Word LoadRelaxed(const Word& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

template <typename Word>
inline Word LoadAcquire(const Word& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

template <typename Word>
inline void StoreRelaxed(Word& word, Word value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

template <typename Word>
inline void StoreRelease(Word& word, Word value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

using cpu::FullFence;
using cpu::FullFenceAfterAtomic;

/// Copies `size_bytes` from shared memory, once. The compiler may not read the source again later,
/// so a check of the copy holds for every later use of the copy.
inline void CopyOnce(void* copy, const void* shared, size_t size_bytes) {
  memcpy(copy, shared, size_bytes);
  __asm__ volatile("" : : "r"(copy) : "memory");
}

}  // namespace uroce::rings
