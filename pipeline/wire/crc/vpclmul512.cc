// SPDX-License-Identifier: Apache-2.0
// CRC-32 with 512-bit VPCLMULQDQ: blocks of 64 bytes, four at a time while there are enough.
#include "pipeline/wire/crc/fold.h"
#include "pipeline/wire/crc/kernel.h"

namespace uroce::wire {
namespace {

using fold::Constant128;
using fold::Distance;
using fold::Over;

constexpr size_t kBlockBytes = 64;

struct Stream {
  uint8_t* destination;
  const uint8_t* source;
};

template <bool copies>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
Next(Stream& stream) {
  const __m512i block = _mm512_loadu_si512(stream.source);
  stream.source += kBlockBytes;
  if constexpr (copies) {
    _mm512_storeu_si512(stream.destination, block);
    stream.destination += kBlockBytes;
  }
  return block;
}

/// A vector that moves all four lanes by the same distance.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
Lanes(Distance distance) {
  return _mm512_broadcast_i32x4(Constant128(distance));
}

/// `value` moved by `distance`, plus `next`.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
Fold512(__m512i value, __m512i distance, __m512i next) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, distance, 0x00),
                                   _mm512_clmulepi64_epi128(value, distance, 0x11), next,
                                   kXorOfThree);
}

/// Processes rounds of 256 bytes (at least one), and returns one 64-byte sum.
template <bool copies>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
FoldMany(__m512i sum, __m512i by64, Stream& stream, size_t rounds) {
  const __m512i by256 = Lanes(Over(256));
  __m512i a = Fold512(sum, by64, Next<copies>(stream));
  __m512i b = Next<copies>(stream);
  __m512i c = Next<copies>(stream);
  __m512i d = Next<copies>(stream);
  for (--rounds; rounds > 0; --rounds) {
    a = Fold512(a, by256, Next<copies>(stream));
    b = Fold512(b, by256, Next<copies>(stream));
    c = Fold512(c, by256, Next<copies>(stream));
    d = Fold512(d, by256, Next<copies>(stream));
  }
  c = Fold512(c, by64, d);
  b = Fold512(b, Lanes(Over(128)), c);
  return Fold512(a, Lanes(Over(192)), b);
}

/// The distances that move each lane to the place of the last one, which stays.
alignas(64) constexpr Distance kLaneDistances[] = {Over(48), Over(32), Over(16),
                                                   fold::kZeroDistance};

/// Adds the four lanes, each moved to the end of the last one.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline uint32_t
Reduce512(__m512i sum) {
  const __m512i distances = _mm512_loadu_si512(kLaneDistances);
  constexpr __mmask8 kLastLane = 0xc0;
  sum = Fold512(sum, distances, _mm512_maskz_mov_epi64(kLastLane, sum));
  const __m256i two =
      _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
  return fold::Reduce128(
      _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1)));
}

/// The blocks after the first one.
template <bool copies>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
FoldRest(__m512i sum, Stream stream, size_t blocks) {
  const __m512i by64 = Lanes(Over(64));
  if (blocks >= 8) {
    sum = FoldMany<copies>(sum, by64, stream, blocks / 4);
    blocks %= 4;
  }
  for (; blocks > 0; --blocks) sum = Fold512(sum, by64, Next<copies>(stream));
  return sum;
}

/// The first `head_bytes` of `block`, with the state added to them, at the high end.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
FirstBlock(__m512i block, uint32_t state, size_t head_bytes) {
  const __m512i onto = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  const __mmask64 high_bytes = ~uint64_t{0} << (kBlockBytes - head_bytes);
  return _mm512_maskz_expand_epi8(high_bytes, _mm512_xor_si512(block, onto));
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul"),
  gnu::always_inline]] inline __m512i
LoadHead(const uint8_t* source, size_t head_bytes) {
  return _mm512_maskz_loadu_epi8(~uint64_t{0} >> (kBlockBytes - head_bytes), source);
}

template <bool copies>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul")]] uint32_t Run(
    uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  if (length == 0) return state;
  const size_t head_bytes = (length - 1) % kBlockBytes + 1;
  const size_t blocks = (length - head_bytes) / kBlockBytes;
  const __m512i head = LoadHead(source, head_bytes);
  if constexpr (copies) {
    _mm512_mask_storeu_epi8(destination, ~uint64_t{0} >> (kBlockBytes - head_bytes), head);
    destination += head_bytes;
  }
  source += head_bytes;
  __m512i sum = FirstBlock(head, state, head_bytes);
  const uint32_t beyond = fold::StateBeyond(state, head_bytes);
  if (blocks == 0) return Reduce512(sum) ^ beyond;
  if (beyond == 0) [[likely]] {
    return Reduce512(FoldRest<copies>(sum, {destination, source}, blocks));
  }
  // A head of one to three bytes takes only a part of the state: the next block takes the rest.
  Stream stream = {destination, source};
  const __m512i rest = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(beyond)));
  const __m512i next = _mm512_xor_si512(Next<copies>(stream), rest);
  sum = Fold512(sum, Lanes(Over(64)), next);
  return Reduce512(FoldRest<copies>(sum, stream, blocks - 1));
}

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  return Run<false>(state, nullptr, source, length);
}

/// The mask covers 64 bytes, which lie in the first block and, if that is short, in the next one.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul")]] uint32_t Masked(
    uint32_t state, const uint8_t* source, size_t length, const HeaderMask& mask) {
  if (length == 0) return state;
  const size_t head_bytes = (length - 1) % kBlockBytes + 1;
  const size_t blocks = (length - head_bytes) / kBlockBytes;
  const uint8_t* bits = mask.bytes.data();
  const __m512i head = _mm512_or_si512(LoadHead(source, head_bytes), _mm512_loadu_si512(bits));
  __m512i sum = FirstBlock(head, state, head_bytes);
  const uint32_t beyond = fold::StateBeyond(state, head_bytes);
  if (blocks == 0) return Reduce512(sum) ^ beyond;
  Stream stream = {.destination = nullptr, .source = source + head_bytes};
  __m512i next = _mm512_or_si512(Next<false>(stream), _mm512_loadu_si512(bits + head_bytes));
  next =
      _mm512_xor_si512(next, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(beyond))));
  sum = Fold512(sum, Lanes(Over(64)), next);
  return Reduce512(FoldRest<false>(sum, stream, blocks - 1));
}

}  // namespace

constinit const CrcKernel kVpclmul512CrcKernel = {
    .name = "vpclmul512", .update = Update, .copy = Run<true>, .masked = Masked};

}  // namespace uroce::wire
