// SPDX-License-Identifier: Apache-2.0
// Fences between threads and between processes, and the pause of a loop that waits. Freestanding:
// liburoce.so uses them.
#pragma once

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "This processor is none of x86-64 and arm64."
#endif

namespace uroce::cpu {

/// Orders this thread's earlier loads and stores before its later ones, as all other threads see
/// them. It is inline assembly because ThreadSanitizer refuses the builtin.
inline void FullFence() {
#if defined(__x86_64__)
  // A locked instruction on the own stack is cheaper than mfence.
  __asm__ volatile("lock; orq $0, (%%rsp)" ::: "memory", "cc");
#else
  __asm__ volatile("dmb ish" ::: "memory");
#endif
}

/// As FullFence, behind an atomic read-modify-write of this thread. On x86-64 that is a fence by
/// itself. On arm64 it is none, whatever order it has: a later load may come before its store.
inline void FullFenceAfterAtomic() {
#if defined(__x86_64__)
  __asm__ volatile("" ::: "memory");
#else
  FullFence();
#endif
}

/// Tells the processor that this loop waits for another thread.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield" ::: "memory");
#endif
}

}  // namespace uroce::cpu
