// SPDX-License-Identifier: Apache-2.0
// Durations that attributes and packets carry as five-bit codes.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::transport {

/// Local ACK timeout: 4.096 us * 2^code, code 0 means never (docs/protocol/transport.md,
/// section 3.3).
constexpr Nanos AckTimeout(uint8_t code) {
  return code == 0 ? kNever : Nanos(int64_t{4096} << (code & 31));
}

/// The least wait of a requester after an RNR NAK (docs/protocol/transport.md, section 3.3).
constexpr Nanos RnrWait(uint8_t code) {
  constexpr std::array<uint32_t, 32> kTensOfMicroseconds = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Nanos(10'000) * kTensOfMicroseconds[code & 31];
}

}  // namespace uroce::transport
