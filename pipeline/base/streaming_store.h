// SPDX-License-Identifier: Apache-2.0
// Stores past the cache, for data that this processor does not read again. On arm64 they are plain
// stores.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace uroce::cpu {

/// Copies 16 bytes. `to` is aligned to 16.
inline void StreamSixteen(uint8_t* to, const uint8_t* from) {
#if defined(__x86_64__)
  const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), part);
#else
  std::memcpy(to, from, 16);
#endif
}

/// Stores eight bytes. `to` is aligned to 8.
inline void StreamEight(uint8_t* to, uint64_t word) {
#if defined(__x86_64__)
  _mm_stream_si64(reinterpret_cast<long long*>(to), static_cast<long long>(word));
#else
  std::memcpy(to, &word, sizeof(word));
#endif
}

/// Orders the stores above before the next store of release order, which does not by itself order
/// them on x86-64.
inline void StreamFence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace uroce::cpu
