// SPDX-License-Identifier: Apache-2.0
// CRC-32 with 256-bit VPCLMULQDQ: in steps of four vectors of 32 bytes, then in blocks of 16.
#include "pipeline/wire/crc/fold.h"
#include "pipeline/wire/crc/kernel.h"

namespace uroce::wire {
namespace {

using fold::Distance;
using fold::Fold128;
using fold::Over;

struct Stream {
  uint8_t* destination;
  const uint8_t* source;
};

template <bool copies>
[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m256i Next(Stream& stream) {
  const __m256i block = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(stream.source));
  stream.source += 32;
  if constexpr (copies) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(stream.destination), block);
    stream.destination += 32;
  }
  return block;
}

template <bool copies>
[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m128i Next128(
    Stream& stream) {
  const __m128i block = fold::Load128(stream.source);
  stream.source += 16;
  if constexpr (copies) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(stream.destination), block);
    stream.destination += 16;
  }
  return block;
}

[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m256i Constant(
    Distance low_lane, Distance high_lane) {
  return _mm256_set_m128i(fold::Constant128(high_lane), fold::Constant128(low_lane));
}

[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m256i Fold256(
    __m256i value, __m256i distance) {
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(value, distance, 0x00),
                          _mm256_clmulepi64_epi128(value, distance, 0x11));
}

/// Processes `rounds` >= 1 rounds of 128 bytes, and returns one 16-byte sum. `carry` is added to
/// the first 16 bytes.
template <bool copies>
[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m128i FoldMany(
    __m128i carry, Stream& stream, size_t rounds) {
  const __m256i by128 = Constant(Over(128), Over(128));
  __m256i a = _mm256_xor_si256(Next<copies>(stream), _mm256_zextsi128_si256(carry));
  __m256i b = Next<copies>(stream);
  __m256i c = Next<copies>(stream);
  __m256i d = Next<copies>(stream);
  for (--rounds; rounds > 0; --rounds) {
    a = _mm256_xor_si256(Fold256(a, by128), Next<copies>(stream));
    b = _mm256_xor_si256(Fold256(b, by128), Next<copies>(stream));
    c = _mm256_xor_si256(Fold256(c, by128), Next<copies>(stream));
    d = _mm256_xor_si256(Fold256(d, by128), Next<copies>(stream));
  }
  a = Fold256(a, Constant(Over(96), Over(96)));
  b = Fold256(b, Constant(Over(64), Over(64)));
  c = Fold256(c, Constant(Over(32), Over(32)));
  a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  const __m128i low = Fold128(_mm256_castsi256_si128(a), fold::Constant128(Over(16)));
  return _mm_xor_si128(low, _mm256_extracti128_si256(a, 1));
}

template <bool copies>
[[gnu::target("avx2,vpclmulqdq,pclmul")]] uint32_t Run(uint32_t state, uint8_t* destination,
                                                       const uint8_t* source, size_t length) {
  if (length == 0) return state;
  if (length < 16) return fold::UpdateShort<copies>(state, destination, source, length);
  const __m128i by16 = fold::Constant128(Over(16));
  const size_t head_bytes = (length - 1) % 16 + 1;
  size_t blocks = (length - head_bytes) / 16;
  Stream stream = {.destination = destination, .source = source};
  const fold::Head head = fold::FirstBlock(Next128<copies>(stream), state, head_bytes);
  if (blocks == 0) return fold::Reduce128(head.accumulator);
  stream.source = source + head_bytes;
  if constexpr (copies) stream.destination = destination + head_bytes;
  const __m128i carry = _mm_xor_si128(Fold128(head.accumulator, by16),
                                      _mm_cvtsi32_si128(static_cast<int>(head.beyond)));
  __m128i sum;
  if (blocks >= 16) {
    sum = FoldMany<copies>(carry, stream, blocks / 8);
    blocks %= 8;
  } else {
    sum = _mm_xor_si128(carry, Next128<copies>(stream));
    --blocks;
  }
  for (; blocks > 0; --blocks) sum = _mm_xor_si128(Fold128(sum, by16), Next128<copies>(stream));
  return fold::Reduce128(sum);
}

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  return Run<false>(state, nullptr, source, length);
}

}  // namespace

constinit const CrcKernel kVpclmul256CrcKernel = {
    .name = "vpclmul256", .update = Update, .copy = Run<true>, .masked = MaskedThroughCopy<Update>};

}  // namespace uroce::wire
