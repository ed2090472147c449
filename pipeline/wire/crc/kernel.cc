// SPDX-License-Identifier: Apache-2.0
// The CRC-32 kernels, one of which icrc.h chooses at run time, and the kernel for every processor:
// by tables, eight bytes per step. For tests and benchmarks; all other code uses icrc.h.
#include "pipeline/wire/crc/kernel.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace uroce::wire {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320;  // 0x04c11db7, bits reversed.
constexpr size_t kSlices = 8;

using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

/// tables[s][b]: the effect of byte b on the register when s more bytes follow it.
constexpr Tables BuildTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) ? kPolynomial : 0);
    tables[0][byte] = state;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = tables[0][before & 0xff] ^ (before >> 8);
    }
  }
  return tables;
}

constexpr Tables kTables = BuildTables();

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  for (; length >= kSlices; length -= kSlices, source += kSlices) {
    uint64_t word;
    std::memcpy(&word, source, sizeof word);
    word ^= state;
    state = 0;
    for (size_t i = 0; i < kSlices; ++i) state ^= kTables[kSlices - 1 - i][word >> (8 * i) & 0xff];
  }
  for (; length > 0; --length) state = kTables[0][(state ^ *source++) & 0xff] ^ (state >> 8);
  return state;
}

uint32_t Copy(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  if (length == 0) return state;  // Null pointers are allowed then, but not by memcpy.
  std::memcpy(destination, source, length);
  return Update(state, destination, length);
}

}  // namespace

constinit const CrcKernel kPortableCrcKernel = {
    .name = "portable", .update = Update, .copy = Copy, .masked = MaskedThroughCopy<Update>};

}  // namespace uroce::wire

#if defined(__x86_64__)

// The kernels of x86-64, by PCLMULQDQ in vectors of 128, 256 and 512 bits, and which of them a
// processor can run.

namespace uroce::wire::fold {
namespace {

// The common code of all vector widths.

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

/// The source of the next block, and the destination of its copy.
struct Stream {
  uint8_t* destination;
  const uint8_t* source;
};

template <bool copies>
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i Next128(Stream& stream) {
  const __m128i block = Load128(stream.source);
  stream.source += 16;
  if constexpr (copies) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(stream.destination), block);
    stream.destination += 16;
  }
  return block;
}

/// The sum of what was taken from a stream, and the number of blocks of 16 bytes behind it.
struct Begun {
  __m128i sum;
  size_t blocks = 0;
};

/// Takes the first block of `length` >= 16 bytes, and the second one if there is one, which takes
/// the part of the state that does not fit into a first block of less than four bytes.
template <bool copies>
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline Begun Begin(uint32_t state,
                                                                        Stream& stream,
                                                                        size_t length) {
  const size_t head_bytes = (length - 1) % 16 + 1;
  const size_t blocks = (length - head_bytes) / 16;
  Stream first = stream;
  const Head head = FirstBlock(Next128<copies>(first), state, head_bytes);
  if (blocks == 0) return {.sum = head.accumulator};
  stream.source += head_bytes;
  if constexpr (copies) stream.destination += head_bytes;
  const __m128i carry = _mm_xor_si128(Fold128(head.accumulator, Constant128(Over(16))),
                                      _mm_cvtsi32_si128(static_cast<int>(head.beyond)));
  return {.sum = _mm_xor_si128(carry, Next128<copies>(stream)), .blocks = blocks - 1};
}

/// Takes all blocks that the mask reaches, at most five.
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline Begun BeginMasked(
    uint32_t state, Stream& stream, size_t length, const HeaderMask& mask) {
  const __m128i by16 = Constant128(Over(16));
  const size_t head_bytes = (length - 1) % 16 + 1;
  const uint8_t* bits = mask.bytes.data();
  const __m128i first = _mm_or_si128(Load128(stream.source), Load128(bits));
  const Head head = FirstBlock(first, state, head_bytes);
  Begun begun = {.sum = head.accumulator, .blocks = (length - head_bytes) / 16};
  stream.source += head_bytes;
  bits += head_bytes;
  __m128i beyond = _mm_cvtsi32_si128(static_cast<int>(head.beyond));
  for (size_t left = begun.blocks < 4 ? begun.blocks : 4; left > 0; --left, bits += 16) {
    const __m128i block = _mm_or_si128(Next128<false>(stream), Load128(bits));
    begun.sum = _mm_xor_si128(_mm_xor_si128(Fold128(begun.sum, by16), beyond), block);
    beyond = _mm_setzero_si128();
    --begun.blocks;
  }
  return begun;
}

/// Takes groups of four of the `blocks` >= 4; up to three are left.
template <bool copies>
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i FoldFours(__m128i sum,
                                                                              Stream& stream,
                                                                              size_t& blocks) {
  const __m128i by64 = Constant128(Over(64));
  __m128i a = _mm_xor_si128(Fold128(sum, Constant128(Over(16))), Next128<copies>(stream));
  __m128i b = Next128<copies>(stream);
  __m128i c = Next128<copies>(stream);
  __m128i d = Next128<copies>(stream);
  for (blocks -= 4; blocks >= 4; blocks -= 4) {
    a = _mm_xor_si128(Fold128(a, by64), Next128<copies>(stream));
    b = _mm_xor_si128(Fold128(b, by64), Next128<copies>(stream));
    c = _mm_xor_si128(Fold128(c, by64), Next128<copies>(stream));
    d = _mm_xor_si128(Fold128(d, by64), Next128<copies>(stream));
  }
  a = Fold128(a, Constant128(Over(48)));
  b = Fold128(b, Constant128(Over(32)));
  c = Fold128(c, Constant128(Over(16)));
  return _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d));
}

/// The register after the last blocks of a stream. Two sums, of every other block, halve the chain
/// of products that wait for each other.
template <bool copies>
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline uint32_t Finish(Begun begun,
                                                                            Stream& stream) {
  const __m128i by16 = Constant128(Over(16));
  const __m128i by32 = Constant128(Over(32));
  __m128i sum = begun.sum;
  if (begun.blocks >= 8) sum = FoldFours<copies>(sum, stream, begun.blocks);
  if (begun.blocks % 2 != 0) {
    sum = _mm_xor_si128(Fold128(sum, by16), Next128<copies>(stream));
  }
  if (begun.blocks < 2) return Reduce128(sum);
  __m128i a = _mm_xor_si128(Fold128(sum, by16), Next128<copies>(stream));
  __m128i b = Next128<copies>(stream);
  for (size_t pairs = begun.blocks / 2 - 1; pairs > 0; --pairs) {
    a = _mm_xor_si128(Fold128(a, by32), Next128<copies>(stream));
    b = _mm_xor_si128(Fold128(b, by32), Next128<copies>(stream));
  }
  return Reduce128(_mm_xor_si128(Fold128(a, by16), b));
}

}  // namespace
}  // namespace uroce::wire::fold

namespace uroce::wire {
namespace {

using fold::Constant128;
using fold::Distance;
using fold::Fold128;
using fold::Over;
using fold::Stream;

// 128 bits: four blocks of 16 bytes at a time.
namespace pclmul128 {

template <bool copies>
[[gnu::target("sse4.1,pclmul")]] uint32_t Run(uint32_t state, uint8_t* destination,
                                              const uint8_t* source, size_t length) {
  if (length == 0) return state;
  if (length < 16) return fold::UpdateShort<copies>(state, destination, source, length);
  Stream stream = {.destination = destination, .source = source};
  const fold::Begun begun = fold::Begin<copies>(state, stream, length);
  return fold::Finish<copies>(begun, stream);
}

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  return Run<false>(state, nullptr, source, length);
}

[[gnu::target("sse4.1,pclmul")]] uint32_t Masked(uint32_t state, const uint8_t* source,
                                                 size_t length, const HeaderMask& mask) {
  if (length < 16) return MaskedThroughCopy<Update>(state, source, length, mask);
  Stream stream = {.destination = nullptr, .source = source};
  const fold::Begun begun = fold::BeginMasked(state, stream, length, mask);
  return fold::Finish<false>(begun, stream);
}

}  // namespace pclmul128

// 256 bits: steps of four vectors of 32 bytes, then blocks of 16.
namespace vpclmul256 {

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

[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m256i Constant(
    Distance low_lane, Distance high_lane) {
  return _mm256_set_m128i(fold::Constant128(high_lane), fold::Constant128(low_lane));
}

[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m256i Fold256(
    __m256i value, __m256i distance) {
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(value, distance, 0x00),
                          _mm256_clmulepi64_epi128(value, distance, 0x11));
}

/// Processes `rounds` >= 1 rounds of 128 bytes, and returns one 16-byte sum.
template <bool copies>
[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline __m128i FoldMany(
    __m128i sum, Stream& stream, size_t rounds) {
  const __m256i by128 = Constant(Over(128), Over(128));
  const __m128i carry = Fold128(sum, Constant128(Over(16)));
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
[[gnu::target("avx2,vpclmulqdq,pclmul"), gnu::always_inline]] inline uint32_t Rest(
    fold::Begun begun, Stream& stream) {
  if (begun.blocks >= 16) {
    begun.sum = FoldMany<copies>(begun.sum, stream, begun.blocks / 8);
    begun.blocks %= 8;
  }
  return fold::Finish<copies>(begun, stream);
}

template <bool copies>
[[gnu::target("avx2,vpclmulqdq,pclmul")]] uint32_t Run(uint32_t state, uint8_t* destination,
                                                       const uint8_t* source, size_t length) {
  if (length == 0) return state;
  if (length < 16) return fold::UpdateShort<copies>(state, destination, source, length);
  Stream stream = {.destination = destination, .source = source};
  const fold::Begun begun = fold::Begin<copies>(state, stream, length);
  return Rest<copies>(begun, stream);
}

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  return Run<false>(state, nullptr, source, length);
}

[[gnu::target("avx2,vpclmulqdq,pclmul")]] uint32_t Masked(uint32_t state, const uint8_t* source,
                                                          size_t length, const HeaderMask& mask) {
  if (length < 16) return MaskedThroughCopy<Update>(state, source, length, mask);
  Stream stream = {.destination = nullptr, .source = source};
  const fold::Begun begun = fold::BeginMasked(state, stream, length, mask);
  return Rest<false>(begun, stream);
}

}  // namespace vpclmul256

// 512 bits: blocks of 64 bytes, four at a time while there are enough.
namespace vpclmul512 {

constexpr size_t kBlockBytes = 64;

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

}  // namespace vpclmul512

}  // namespace

constinit const CrcKernel kVpclmul256CrcKernel = {.name = "vpclmul256",
                                                  .update = vpclmul256::Update,
                                                  .copy = vpclmul256::Run<true>,
                                                  .masked = vpclmul256::Masked};

constinit const CrcKernel kVpclmul512CrcKernel = {.name = "vpclmul512",
                                                  .update = vpclmul512::Update,
                                                  .copy = vpclmul512::Run<true>,
                                                  .masked = vpclmul512::Masked};

constinit const CrcKernel kPclmul128CrcKernel = {.name = "pclmul128",
                                                 .update = pclmul128::Update,
                                                 .copy = pclmul128::Run<true>,
                                                 .masked = pclmul128::Masked};

// __builtin_cpu_supports also checks that the operating system saves the register state.
std::vector<CrcKernel> FindCrcKernels() {
  __builtin_cpu_init();
  const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  const bool vpclmul = pclmul && __builtin_cpu_supports("vpclmulqdq");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
  std::vector<CrcKernel> kernels;
  if (vpclmul && avx512) kernels.push_back(kVpclmul512CrcKernel);
  if (vpclmul && __builtin_cpu_supports("avx2")) kernels.push_back(kVpclmul256CrcKernel);
  if (pclmul) kernels.push_back(kPclmul128CrcKernel);
  kernels.push_back(kPortableCrcKernel);
  return kernels;
}

}  // namespace uroce::wire

#endif
