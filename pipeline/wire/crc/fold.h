// SPDX-License-Identifier: Apache-2.0
// CRC-32 by carry-less multiplication: the common code of the kernels of all vector widths.
//
// A register with 16 bytes of the message is a polynomial; moving it D bits closer to the end is a
// multiplication by x^D mod P. Zero bytes in front extend the message to a multiple of the block
// size: leading zeros change nothing when the state is applied to the first real bytes. So the
// first block handles all odd lengths.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::wire::fold {

/// x^exponent mod P, reflected, in the 33-bit form that a product of reflected values needs.
constexpr uint64_t Power(unsigned exponent) {
  uint32_t value = 0x80000000;
  for (; exponent > 0; --exponent) value = (value >> 1) ^ ((value & 1) ? 0xedb88320 : 0);
  return uint64_t{value} << 1;
}

/// Multipliers that move 16 bytes by `bytes`: for the low half and for the high half.
struct Distance {
  uint64_t low;
  uint64_t high;
};
constexpr Distance Over(unsigned bytes) {
  return {.low = Power(8 * bytes + 32), .high = Power(8 * bytes - 32)};
}
inline constexpr Distance kZeroDistance = {.low = 0, .high = 0};

/// Byte shuffles for _mm_shuffle_epi8: loading at offset n moves n low bytes to the high end.
alignas(32) inline constexpr uint8_t kMoveUp[32] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15};

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

/// floor(x^95 / P), reflected: the first 64 coefficients of the quotient, highest first in bit 0.
constexpr uint64_t Quotient() {
  uint64_t quotient = 0;
  uint32_t remainder = 0x80000000;  // x^0, reflected; then x^1, x^2 ... mod P.
  for (int i = 0; i < 95; ++i) {
    const bool carry = (remainder & 1) != 0;
    remainder = (remainder >> 1) ^ (carry ? 0xedb88320 : 0);
    // Each carry is a coefficient of the quotient, the one of x^63 (at i = 31) first.
    if (i >= 31 && carry) quotient |= uint64_t{1} << (i - 31);
  }
  return quotient;
}

/// The register after the 16 bytes of `value`, that is value * x^32 mod P, with three products one
/// after the other: 128 bits are folded to 96, whose quotient by P comes from the first 64 of them
/// (Barrett; exact, as polynomials do not carry), and the remainder from the last 32.
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline uint32_t Reduce128(__m128i value) {
  // A product of reflected values stands one bit off, hence x^95 for x^96.
  constexpr uint64_t kX96 = (Power(95) >> 1) << 32;
  constexpr int64_t kPolynomial33 = 0x1db710641;
  const __m128i fold = _mm_cvtsi64_si128(static_cast<int64_t>(kX96));
  const __m128i barrett = _mm_set_epi64x(kPolynomial33, static_cast<int64_t>(Quotient()));
  const __m128i high_by_x32 = _mm_slli_si128(_mm_srli_si128(value, 8), 4);
  const __m128i sum = _mm_xor_si128(_mm_clmulepi64_si128(value, fold, 0x00), high_by_x32);
  const __m128i quotient = _mm_clmulepi64_si128(_mm_srli_si128(sum, 4), barrett, 0x00);
  const __m128i product = _mm_clmulepi64_si128(quotient, barrett, 0x10);
  return static_cast<uint32_t>(_mm_extract_epi32(sum, 3) ^ _mm_extract_epi32(product, 2));
}

/// The part of the state that reaches beyond a first block of `head` message bytes.
inline uint32_t StateBeyond(uint32_t state, size_t head) {
  return head < sizeof state ? state >> (8 * head) : 0;
}

template <typename Word>
Word LoadWord(const uint8_t* source) {
  Word word;
  std::memcpy(&word, source, sizeof word);
  return word;
}

template <typename Word>
void StoreWord(uint8_t* destination, Word word) {
  std::memcpy(destination, &word, sizeof word);
}

/// Fewer than 16 bytes in two words, the rest zero. Reads nothing outside of them.
struct Short {
  uint64_t low = 0;
  uint64_t high = 0;
};
inline Short LoadShort(const uint8_t* source, size_t length) {
  if (length > 8) {
    return {.low = LoadWord<uint64_t>(source),
            .high = LoadWord<uint64_t>(source + length - 8) >> (8 * (16 - length))};
  }
  if (length >= 4) {
    const uint64_t last = LoadWord<uint32_t>(source + length - 4);
    return {.low = LoadWord<uint32_t>(source) | (last >> (8 * (8 - length))) << 32};
  }
  Short value;
  for (size_t i = 0; i < length; ++i) value.low |= uint64_t{source[i]} << (8 * i);
  return value;
}

inline void StoreShort(uint8_t* destination, Short value, size_t length) {
  if (length > 8) {
    StoreWord(destination, value.low);
    const size_t over = 8 * (length - 8);
    StoreWord(destination + length - 8, value.low >> over | value.high << (64 - over));
    return;
  }
  if (length >= 4) {
    StoreWord(destination, static_cast<uint32_t>(value.low));
    const uint64_t last = value.low >> (8 * (length - 4));
    StoreWord(destination + length - 4, static_cast<uint32_t>(last));
    return;
  }
  for (size_t i = 0; i < length; ++i) {
    destination[i] = static_cast<uint8_t>(value.low >> (8 * i));
  }
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
