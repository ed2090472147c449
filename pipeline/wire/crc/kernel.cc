// SPDX-License-Identifier: Apache-2.0
// The CRC-32 kernels, one of which icrc.h chooses at run time, and the kernel for every processor:
// by tables, eight bytes per step. For tests and benchmarks; all other code uses icrc.h.
#include "pipeline/wire/crc/kernel.h"

#include <array>
#include <cstring>

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
