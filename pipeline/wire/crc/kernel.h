// SPDX-License-Identifier: Apache-2.0
// The variants of CRC-32 that one of icrc.h is chosen from at run time. For tests and benchmarks;
// all others call icrc.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::wire {

/// Bits to set in the first 64 bytes of an input; the second half is zero, so that a kernel may
/// load 64 bytes of it at any offset up to 64.
struct alignas(64) HeaderMask {
  std::array<uint8_t, 128> bytes{};
};

/// Arithmetic of one instruction set. `state` is the reflected register before the complement.
struct CrcKernel {
  const char* name;
  uint32_t (*update)(uint32_t state, const uint8_t* source, size_t length);
  /// Copies too; each byte of `source` is read as often as it likes, but what it puts into the
  /// state is what it writes: the source may be memory that others are changing.
  uint32_t (*copy)(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length);
  /// Updates as if the bits of `mask` were set in the first 64 bytes.
  uint32_t (*masked)(uint32_t state, const uint8_t* source, size_t length, const HeaderMask& mask);
};

/// Those that this machine can run, best first; the last is the portable one.
std::span<const CrcKernel> AvailableCrcKernels();

// The kernels; each may only run where its instructions exist.
extern const CrcKernel kPortableCrcKernel;
extern const CrcKernel kPclmul128CrcKernel;
extern const CrcKernel kVpclmul256CrcKernel;
extern const CrcKernel kVpclmul512CrcKernel;

/// `masked` for a kernel that has no better way: masks a copy of the first 64 bytes.
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
