// SPDX-License-Identifier: Apache-2.0
// Keeps track of the free ranges of an arena. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace uroce {

/// Ranges of [begin, end) in units of `grain` bytes, first fit by address. Neighbouring free
/// ranges are merged.
class Extents {
 public:
  /// All three are multiples of `grain`, which is a power of two.
  Extents(uint64_t begin, uint64_t end, uint64_t grain);
  /// Takes a free range of at least `length` bytes; returns its offset, or nothing.
  std::optional<uint64_t> Take(uint64_t length);
  /// Frees the range that Take returned for this length.
  void Give(uint64_t offset, uint64_t length);
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t RoundUp(uint64_t length) const { return (length + grain_ - 1) & ~(grain_ - 1); }

 private:
  uint64_t grain_;
  uint64_t free_bytes_;
  std::map<uint64_t, uint64_t> free_;  ///< Length by offset.
};

}  // namespace uroce
