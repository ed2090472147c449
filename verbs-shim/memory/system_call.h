// SPDX-License-Identifier: Apache-2.0
// System calls without libc. They do not write errno (thread-local memory, which may be
// write-protected while a range is remapped) and are safe in a fork child and in signal handlers.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>

#include <cstdint>
#include <type_traits>

namespace uroce::memory {

template <typename Argument>
inline uint64_t ToRegister(Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    return reinterpret_cast<uint64_t>(argument);
  } else {
    return static_cast<uint64_t>(argument);
  }
}

/// Returns the kernel's own result: a negative errno on failure.
template <typename... Arguments>
inline int64_t SystemCall(int64_t number, Arguments... arguments) {
  static_assert(sizeof...(arguments) <= 6);
  const uint64_t values[6] = {ToRegister(arguments)...};
#if defined(__x86_64__)
  int64_t result;
  register uint64_t r10 asm("r10") = values[3];
  register uint64_t r8 asm("r8") = values[4];
  register uint64_t r9 asm("r9") = values[5];
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(r10), "r"(r8),
                 "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#else
  register int64_t x8 asm("x8") = number;
  register uint64_t x0 asm("x0") = values[0];
  register uint64_t x1 asm("x1") = values[1];
  register uint64_t x2 asm("x2") = values[2];
  register uint64_t x3 asm("x3") = values[3];
  register uint64_t x4 asm("x4") = values[4];
  register uint64_t x5 asm("x5") = values[5];
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return static_cast<int64_t>(x0);
#endif
}

/// open(2), which not each architecture has.
inline int64_t OpenFile(const char* path, int flags) {
  return SystemCall(SYS_openat, AT_FDCWD, path, flags);
}

/// mmap and related calls return an address, or a negative errno in the last page of the address
/// space.
inline bool IsError(int64_t result) { return result < 0 && result >= -4095; }

}  // namespace uroce::memory
