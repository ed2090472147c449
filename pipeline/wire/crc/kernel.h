// SPDX-License-Identifier: Apache-2.0
// The CRC-32 kernels, one of which icrc.h chooses at run time, and the kernel for every processor:
// by tables, eight bytes per step. For tests and benchmarks; all other code uses icrc.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace uroce::wire {

/// The bits to set in the first 64 bytes of an input. The second half is zero, so that a kernel may
/// load 64 bytes of the mask at any offset up to 64.
struct alignas(64) HeaderMask {
  std::array<uint8_t, 128> bytes{};
};

/// The CRC functions for one instruction set. `state` is the reflected register, not complemented.
struct CrcKernel {
  const char* name;
  uint32_t (*update)(uint32_t state, const uint8_t* source, size_t length);
  /// Also copies. The state always covers the bytes that are written, even if others change the
  /// source meanwhile and the kernel reads a byte more than once.
  uint32_t (*copy)(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length);
  /// Updates as if the bits of `mask` were set in the first 64 bytes.
  uint32_t (*masked)(uint32_t state, const uint8_t* source, size_t length, const HeaderMask& mask);
};

/// The kernels that this machine can run, fastest first. The last one is the portable kernel.
std::span<const CrcKernel> AvailableCrcKernels();
/// Asks the processor; AvailableCrcKernels keeps the answer.
std::vector<CrcKernel> FindCrcKernels();

// Each kernel may run only on CPUs that have its instructions; each architecture has its own.
extern const CrcKernel kPortableCrcKernel;
extern const CrcKernel kPclmul128CrcKernel;
extern const CrcKernel kVpclmul256CrcKernel;
extern const CrcKernel kVpclmul512CrcKernel;
extern const CrcKernel kPmull128CrcKernel;

/// The generic CrcKernel::masked: masks a copy of the first 64 bytes.
template <uint32_t (*update)(uint32_t, const uint8_t*, size_t)>
uint32_t MaskedThroughCopy(uint32_t state, const uint8_t* source, size_t length,
                           const HeaderMask& mask) {
  constexpr size_t kMaskedBytes = 64;
  alignas(16) std::array<uint8_t, kMaskedBytes> head;
  const size_t head_bytes = length < kMaskedBytes ? length : kMaskedBytes;
  for (size_t i = 0; i < head_bytes; ++i) {
    head[i] = static_cast<uint8_t>(source[i] | mask.bytes[i]);
  }
  state = update(state, head.data(), head_bytes);
  return update(state, source + head_bytes, length - head_bytes);
}

}  // namespace uroce::wire

namespace uroce::wire::fold {

// CRC-32 by carry-less multiplication: what the kernels of all processors have in common.
//
// A register with 16 bytes of the message is a polynomial; moving it D bits closer to the end is a
// multiplication by x^D mod P. Zero bytes in front extend the message to a multiple of the block
// size: leading zeros change nothing when the state is applied to the first real bytes. So the
// first block handles all odd lengths.

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

/// Byte shuffles of 16 bytes, in which an index out of range gives 0: loading at offset n moves n
/// low bytes to the high end.
alignas(32) inline constexpr uint8_t kMoveUp[32] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15};

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

/// The multipliers of the last step. A product of reflected values stands one bit off, hence x^95
/// for x^96.
inline constexpr uint64_t kX96 = (Power(95) >> 1) << 32;
inline constexpr int64_t kPolynomial33 = 0x1db710641;

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

}  // namespace uroce::wire::fold
