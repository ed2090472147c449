// SPDX-License-Identifier: Apache-2.0
// CRC-32 with 128-bit PCLMULQDQ, four blocks of 16 bytes at a time; and which kernels an x86-64
// processor can run.
#include "pipeline/wire/crc/fold.h"
#include "pipeline/wire/crc/kernel.h"

namespace uroce::wire {

namespace {

using fold::Constant128;
using fold::Fold128;
using fold::Over;

/// The source of the next block, and the destination of its copy.
struct Stream {
  uint8_t* destination;
  const uint8_t* source;
};

template <bool copies>
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i Next(Stream& stream) {
  const __m128i block = fold::Load128(stream.source);
  stream.source += 16;
  if constexpr (copies) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(stream.destination), block);
    stream.destination += 16;
  }
  return block;
}

/// Takes groups of four of the `blocks` >= 4; up to three are left. `first` is loaded already.
template <bool copies>
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline __m128i FoldMany(__m128i first,
                                                                             Stream& stream,
                                                                             size_t& blocks) {
  const __m128i by64 = Constant128(Over(64));
  __m128i a = first;
  __m128i b = Next<copies>(stream);
  __m128i c = Next<copies>(stream);
  __m128i d = Next<copies>(stream);
  for (blocks -= 4; blocks >= 4; blocks -= 4) {
    a = _mm_xor_si128(Fold128(a, by64), Next<copies>(stream));
    b = _mm_xor_si128(Fold128(b, by64), Next<copies>(stream));
    c = _mm_xor_si128(Fold128(c, by64), Next<copies>(stream));
    d = _mm_xor_si128(Fold128(d, by64), Next<copies>(stream));
  }
  a = Fold128(a, Constant128(Over(48)));
  b = Fold128(b, Constant128(Over(32)));
  c = Fold128(c, Constant128(Over(16)));
  return _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d));
}

template <bool copies>
[[gnu::target("sse4.1,pclmul")]] uint32_t Run(uint32_t state, uint8_t* destination,
                                              const uint8_t* source, size_t length) {
  if (length == 0) return state;
  if (length < 16) return fold::UpdateShort<copies>(state, destination, source, length);
  const __m128i by16 = Constant128(Over(16));
  const size_t head_bytes = (length - 1) % 16 + 1;
  size_t blocks = (length - head_bytes) / 16;
  Stream stream = {.destination = destination, .source = source};
  const fold::Head head = fold::FirstBlock(Next<copies>(stream), state, head_bytes);
  if (blocks == 0) return fold::Reduce128(head.accumulator);
  stream.source = source + head_bytes;
  if constexpr (copies) stream.destination = destination + head_bytes;
  const __m128i beyond = _mm_cvtsi32_si128(static_cast<int>(head.beyond));
  __m128i sum =
      _mm_xor_si128(_mm_xor_si128(Fold128(head.accumulator, by16), beyond), Next<copies>(stream));
  if (blocks >= 8) {
    sum = FoldMany<copies>(sum, stream, blocks);
  } else {
    --blocks;
  }
  for (; blocks > 0; --blocks) sum = _mm_xor_si128(Fold128(sum, by16), Next<copies>(stream));
  return fold::Reduce128(sum);
}

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  return Run<false>(state, nullptr, source, length);
}

}  // namespace

constinit const CrcKernel kPclmul128CrcKernel = {
    .name = "pclmul128", .update = Update, .copy = Run<true>, .masked = MaskedThroughCopy<Update>};

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
