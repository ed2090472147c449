// SPDX-License-Identifier: Apache-2.0
// Copies memory without libc.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// Not memcpy: under a sanitizer the program has its own memcpy, which rejects freed memory.
inline void CopyBytes(uint64_t to, uint64_t from, uint64_t length) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
  const auto move = [&]<typename Word>(Word) {
    for (; length >= sizeof(Word); length -= sizeof(Word)) {
      *reinterpret_cast<volatile Word*>(to) = *reinterpret_cast<const volatile Word*>(from);
      to += sizeof(Word);
      from += sizeof(Word);
    }
  };
  move(uint64_t{});
  move(uint8_t{});
#endif
}

inline bool IsZeroPage(uint64_t page) {
  const auto* words = reinterpret_cast<const uint64_t*>(page);
  constexpr uint64_t kWords = kPageBytes / sizeof(uint64_t);
  for (uint64_t i = 0; i < kWords; i += 8) {
    uint64_t any = 0;
    for (uint64_t j = 0; j < 8; ++j) any |= words[i + j];
    if (any != 0) return false;
  }
  return true;
}

/// Copies whole pages to memory that was never touched. Pages of zeros are skipped, and use no
/// memory.
inline void CopyUsedPages(uint64_t to, uint64_t from, uint64_t length) {
  for (uint64_t at = 0; at < length; at += kPageBytes) {
    if (!IsZeroPage(from + at)) CopyBytes(to + at, from + at, kPageBytes);
  }
}

}  // namespace uroce::memory
