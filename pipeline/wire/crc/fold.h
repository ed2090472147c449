// SPDX-License-Identifier: Apache-2.0
// CRC-32 by PCLMULQDQ: the common code of the kernels of all vector widths.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "pipeline/wire/crc/polynomial.h"

namespace uroce::wire::fold {

[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i Load128(const void* source) {
  return _mm_loadu_si128(static_cast<const __m128i*>(source));
}

[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i Constant128(Distance distance) {
  return _mm_set_epi64x(static_cast<int64_t>(distance.high), static_cast<int64_t>(distance.low));
}

/// `value` moved by `distance`, as a sum of two products that stay below 128 bits.
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i Fold128(__m128i value,
                                                                            __m128i distance) {
  return _mm_xor_si128(_mm_clmulepi64_si128(value, distance, 0x00),
                       _mm_clmulepi64_si128(value, distance, 0x11));
}

/// The register after the 16 bytes of `value`, that is value * x^32 mod P, with three products one
/// after the other: 128 bits are folded to 96, whose quotient by P comes from the first 64 of them
/// (Barrett; exact, as polynomials do not carry), and the remainder from the last 32.
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline uint32_t Reduce128(__m128i value) {
  const __m128i fold = _mm_cvtsi64_si128(static_cast<int64_t>(kX96));
  const __m128i barrett = _mm_set_epi64x(kPolynomial33, static_cast<int64_t>(Quotient()));
  const __m128i high_by_x32 = _mm_slli_si128(_mm_srli_si128(value, 8), 4);
  const __m128i sum = _mm_xor_si128(_mm_clmulepi64_si128(value, fold, 0x00), high_by_x32);
  const __m128i quotient = _mm_clmulepi64_si128(_mm_srli_si128(sum, 4), barrett, 0x00);
  const __m128i product = _mm_clmulepi64_si128(quotient, barrett, 0x10);
  return static_cast<uint32_t>(_mm_extract_epi32(sum, 3) ^ _mm_extract_epi32(product, 2));
}

/// The result of the first block: the accumulator, and the state for the bytes behind the block.
struct Head {
  __m128i accumulator;
  uint32_t beyond = 0;
};

/// Processes the first `head` bytes, at most 16. `v` holds them, and maybe more, from its low end.
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline Head FirstBlock(__m128i v,
                                                                            uint32_t state,
                                                                            size_t head) {
  v = _mm_xor_si128(v, _mm_cvtsi32_si128(static_cast<int>(state)));
  return {.accumulator = _mm_shuffle_epi8(v, Load128(kMoveUp + head)),
          .beyond = StateBeyond(state, head)};
}

/// Processes a whole input of fewer than 16 bytes.
template <bool copies>
[[gnu::target("sse4.1,pclmul")]] uint32_t UpdateShort(uint32_t state, uint8_t* destination,
                                                      const uint8_t* source, size_t length) {
  const Short bytes = LoadShort(source, length);
  if constexpr (copies) StoreShort(destination, bytes, length);
  const __m128i v =
      _mm_set_epi64x(static_cast<int64_t>(bytes.high), static_cast<int64_t>(bytes.low));
  const Head head = FirstBlock(v, state, length);
  return Reduce128(head.accumulator) ^ head.beyond;
}

}  // namespace uroce::wire::fold
