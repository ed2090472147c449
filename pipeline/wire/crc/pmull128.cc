// SPDX-License-Identifier: Apache-2.0
// CRC-32 by arm64's 64-bit polynomial multiply (PMULL), four blocks of 16 bytes at a time: the
// steps of kernel.cc.
#include <arm_neon.h>

#include "pipeline/wire/crc/kernel.h"

namespace uroce::wire {
namespace {

using fold::Distance;
using fold::Over;

uint64x2_t Load(const void* source) {
  return vreinterpretq_u64_u8(vld1q_u8(static_cast<const uint8_t*>(source)));
}

uint64x2_t Pair(uint64_t low, uint64_t high) {
  return vcombine_u64(vcreate_u64(low), vcreate_u64(high));
}

uint64x2_t Product(uint64_t a, uint64_t b) {
  return vreinterpretq_u64_p128(vmull_p64(static_cast<poly64_t>(a), static_cast<poly64_t>(b)));
}

uint64_t Low(uint64x2_t value) { return vgetq_lane_u64(value, 0); }
uint64_t High(uint64x2_t value) { return vgetq_lane_u64(value, 1); }

uint64x2_t Constant(Distance distance) { return Pair(distance.low, distance.high); }

/// `value` moved by `distance`, as a sum of two products that stay below 128 bits.
uint64x2_t Fold(uint64x2_t value, uint64x2_t distance) {
  const poly128_t high =
      vmull_high_p64(vreinterpretq_p64_u64(value), vreinterpretq_p64_u64(distance));
  return veorq_u64(Product(Low(value), Low(distance)), vreinterpretq_u64_p128(high));
}

/// value * x^32 mod P, as fold::Reduce128 of x86-64.
uint32_t Reduce(uint64x2_t value) {
  const uint64x2_t high_by_x32 = Pair(High(value) << 32, High(value) >> 32);
  const uint64x2_t sum = veorq_u64(Product(Low(value), fold::kX96), high_by_x32);
  const uint64x2_t quotient = Product(Low(sum) >> 32 | High(sum) << 32, fold::Quotient());
  const uint64x2_t product = Product(Low(quotient), fold::kPolynomial33);
  return static_cast<uint32_t>((High(sum) >> 32) ^ High(product));
}

/// The result of the first block: the accumulator, and the state for the bytes behind the block.
struct Head {
  uint64x2_t accumulator;
  uint32_t beyond;
};

/// Processes the first `head` bytes, at most 16. `v` holds them, and maybe more, from its low end.
Head FirstBlock(uint64x2_t v, uint32_t state, size_t head) {
  v = veorq_u64(v, Pair(state, 0));
  const uint8x16_t moved = vqtbl1q_u8(vreinterpretq_u8_u64(v), vld1q_u8(fold::kMoveUp + head));
  return {.accumulator = vreinterpretq_u64_u8(moved), .beyond = fold::StateBeyond(state, head)};
}

/// Processes a whole input of fewer than 16 bytes.
template <bool copies>
uint32_t UpdateShort(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  const fold::Short bytes = fold::LoadShort(source, length);
  if constexpr (copies) fold::StoreShort(destination, bytes, length);
  const Head head = FirstBlock(Pair(bytes.low, bytes.high), state, length);
  return Reduce(head.accumulator) ^ head.beyond;
}

/// The source of the next block, and the destination of its copy.
struct Stream {
  uint8_t* destination;
  const uint8_t* source;
};

template <bool copies>
uint64x2_t Next(Stream& stream) {
  const uint64x2_t block = Load(stream.source);
  stream.source += 16;
  if constexpr (copies) {
    vst1q_u8(stream.destination, vreinterpretq_u8_u64(block));
    stream.destination += 16;
  }
  return block;
}

/// Takes groups of four of the `blocks` >= 4; up to three are left. `first` is loaded already.
template <bool copies>
uint64x2_t FoldMany(uint64x2_t first, Stream& stream, size_t& blocks) {
  const uint64x2_t by64 = Constant(Over(64));
  uint64x2_t a = first;
  uint64x2_t b = Next<copies>(stream);
  uint64x2_t c = Next<copies>(stream);
  uint64x2_t d = Next<copies>(stream);
  for (blocks -= 4; blocks >= 4; blocks -= 4) {
    a = veorq_u64(Fold(a, by64), Next<copies>(stream));
    b = veorq_u64(Fold(b, by64), Next<copies>(stream));
    c = veorq_u64(Fold(c, by64), Next<copies>(stream));
    d = veorq_u64(Fold(d, by64), Next<copies>(stream));
  }
  a = Fold(a, Constant(Over(48)));
  b = Fold(b, Constant(Over(32)));
  c = Fold(c, Constant(Over(16)));
  return veorq_u64(veorq_u64(a, b), veorq_u64(c, d));
}

template <bool copies>
uint32_t Run(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  if (length == 0) return state;
  if (length < 16) return UpdateShort<copies>(state, destination, source, length);
  const uint64x2_t by16 = Constant(Over(16));
  const size_t head_bytes = (length - 1) % 16 + 1;
  size_t blocks = (length - head_bytes) / 16;
  Stream stream = {.destination = destination, .source = source};
  const Head head = FirstBlock(Next<copies>(stream), state, head_bytes);
  if (blocks == 0) return Reduce(head.accumulator);
  stream.source = source + head_bytes;
  if constexpr (copies) stream.destination = destination + head_bytes;
  const uint64x2_t carry = veorq_u64(Fold(head.accumulator, by16), Pair(head.beyond, 0));
  uint64x2_t sum = veorq_u64(carry, Next<copies>(stream));
  if (blocks >= 8) {
    sum = FoldMany<copies>(sum, stream, blocks);
  } else {
    --blocks;
  }
  for (; blocks > 0; --blocks) sum = veorq_u64(Fold(sum, by16), Next<copies>(stream));
  return Reduce(sum);
}

uint32_t Update(uint32_t state, const uint8_t* source, size_t length) {
  return Run<false>(state, nullptr, source, length);
}

}  // namespace

constinit const CrcKernel kPmull128CrcKernel = {
    .name = "pmull128", .update = Update, .copy = Run<true>, .masked = MaskedThroughCopy<Update>};

}  // namespace uroce::wire
