// SPDX-License-Identifier: Apache-2.0
// System calls without libc. They do not write errno (thread-local memory, which may be
// write-protected while a range is swapped) and are safe in a fork child and in signal handlers.
#pragma once

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
}

/// mmap and related calls return an address, or a negative errno in the last page of the address
/// space.
inline bool IsError(int64_t result) { return result < 0 && result >= -4095; }

}  // namespace uroce::memory
