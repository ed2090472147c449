// SPDX-License-Identifier: Apache-2.0
// The processor's counter of time.
#pragma once

#include <cstdint>

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

}  // namespace uroce::cpu
