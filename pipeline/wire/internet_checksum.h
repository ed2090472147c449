// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the Internet checksum (RFC 1071).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::wire {

/// Sum of the 16-bit words of `bytes` in network order; a zero follows an odd last byte. Sums of
/// parts of even length may be added.
inline uint64_t SumOfWords(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  size_t at = 0;
  for (; at + 1 < bytes.size(); at += 2) sum += uint32_t{bytes[at]} << 8 | bytes[at + 1];
  if (at < bytes.size()) sum += uint32_t{bytes[at]} << 8;
  return sum;
}

/// The one's complement sum in 16 bits. A checksum is its complement.
inline uint16_t FoldSum(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

inline uint16_t ChecksumOfSum(uint64_t sum) { return static_cast<uint16_t>(~FoldSum(sum)); }

}  // namespace uroce::wire
