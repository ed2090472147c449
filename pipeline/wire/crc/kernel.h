// SPDX-License-Identifier: Apache-2.0
// The CRC-32 kernels, one of which icrc.h chooses at run time, and the kernel for every processor:
// by tables, eight bytes per step. For tests and benchmarks; all other code uses icrc.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
