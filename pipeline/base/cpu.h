// SPDX-License-Identifier: Apache-2.0
// The processor: fences between threads and processes, the pause of a loop that waits, the counter
// of time, and whether other threads want this core. Freestanding: liburoce.so uses it.
#pragma once

#include <cstdint>

// Fences between threads and between processes, and the pause of a loop that waits. Freestanding:
// liburoce.so uses them.

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

/// Whether other threads see the stores of a thread, and so of the kernel for it, in their order.
#if defined(__x86_64__)
inline constexpr bool kStoresStayInOrder = true;
#else
inline constexpr bool kStoresStayInOrder = false;
#endif

/// Tells the processor that this loop waits for another thread.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield" ::: "memory");
#endif
}

}  // namespace uroce::cpu

// The processor's counter of time.

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace uroce::cpu {

/// Ticks since some moment: the time stamp counter of x86-64, the virtual counter of arm64.
inline uint64_t ReadCounter() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

/// Whether the counter's rate is the same in all power states.
inline bool CounterIsSteady() {
#if defined(__x86_64__)
  // CPUID 0x80000007, EDX bit 8.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#else
  return true;  // The architecture says so.
#endif
}

/// Whether other threads want the core of this one, learned from how long its yields take. Pure.
/// On its own core a thread that waits polls, and yields from time to time: it sees what it waits
/// for within some 100 ns. Where others want the core, a yield costs time slices: Linux since 6.6
/// puts a thread that yields behind all that are ready. A thread that sleeps instead keeps its
/// share, and runs soon after its wake-up. So after a slow yield a thread is to sleep at once,
/// until yields are fast again. That is tried after 10 ms, and then ever more seldom, down to once
/// a second. Times are in ns of any clock. One thread.
class Contention {
 public:
  static constexpr int64_t kSlowYieldNs = 500'000;
  /// A yield in which nothing else ran takes less.
  static constexpr int64_t kFastYieldNs = 20'000;
  /// So many fast yields in a row end it. A thread that has slept much gets its core back from
  /// yields for a while (for 4 ms of its time at the most), though others are ready.
  static constexpr uint32_t kFastYields = 64;
  static constexpr int64_t kFirstTrialNs = 10'000'000;
  static constexpr int64_t kLongestTrialNs = 1'000'000'000;

  /// Whether the last slow yield still counts.
  bool is_known() const { return is_known_; }
  /// Whether to yield, and to tell OnYield how long it took. False: sleep.
  bool MayYield(int64_t now_ns) const { return !is_known_ || now_ns >= try_at_ns_; }

  void OnYield(int64_t took_ns, int64_t now_ns) {
    if (is_known_ && took_ns < kFastYieldNs) {
      if (++fast_yields_ == kFastYields) is_known_ = false;
      return;
    }
    if (!is_known_ && took_ns <= kSlowYieldNs) return;
    // What seemed to have ended a moment ago goes on.
    const bool goes_on = now_ns - try_at_ns_ < kLongestTrialNs;
    trial_ns_ = goes_on ? LaterTrial() : kFirstTrialNs;
    try_at_ns_ = now_ns + trial_ns_;
    fast_yields_ = 0;
    is_known_ = true;
  }

 private:
  int64_t LaterTrial() const {
    return trial_ns_ * 2 < kLongestTrialNs ? trial_ns_ * 2 : kLongestTrialNs;
  }

  bool is_known_ = false;
  uint32_t fast_yields_ = 0;
  int64_t trial_ns_ = kFirstTrialNs;  ///< From the last slow yield to the trial.
  int64_t try_at_ns_ = -kLongestTrialNs;
};

}  // namespace uroce::cpu
