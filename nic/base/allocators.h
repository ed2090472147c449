// SPDX-License-Identifier: Apache-2.0
// Hands out what each has one holder at a time: numbers that others must not guess, and ranges of
// an arena.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "pipeline/base/types.h"

namespace uroce {

/// The free ranges of an arena: of [begin, end) in units of `grain` bytes, first fit by address.
/// Neighbouring free ranges are merged. Pure.
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

/// Returns 32 bits from the kernel's CSPRNG.
uint32_t SecureRandom();

/// QPNs and keys: others must not guess them, and they are not soon used again.
///
/// Random numbers of `bits` bits, none of `reserved`. Each has one holder at a time and rests for
/// 60 s before it is given out again. The holder may change the `group_bits` low bits: numbers that
/// differ only there count as one, as ibv_inc_rkey needs for keys.
class NumberPool {
 public:
  using Random = uint32_t (*)();
  static constexpr Nanos kQuarantine{60'000'000'000};

  NumberPool(uint32_t bits, uint32_t group_bits, Random random = SecureRandom);

  /// The range in which a number must lie: `first` <= number < `end`.
  struct Range {
    uint64_t first = 0;
    uint64_t end = 0;
  };

  /// Takes a free number. Range: 1 < value < 2^bits - 1. Returns 0 when half of all are taken.
  uint32_t Take(Nanos now) { return Take(now, {0, uint64_t{mask_} + 1}); }
  /// Does the same within `range`. Returns 0 also when nearly all of the range are taken.
  uint32_t Take(Nanos now, const Range& range);
  /// Ends the hold; the number rests before it is given out again.
  void Release(uint32_t number, Nanos now);
  size_t held() const { return taken_.size() - resting_.size(); }

 private:
  struct Resting {
    uint32_t group;
    Nanos until;
  };

  void EndRests(Nanos now);

  uint32_t mask_;
  uint32_t group_bits_;
  Random random_;
  absl::flat_hash_set<uint32_t> taken_;  ///< Groups held or resting.
  std::deque<Resting> resting_;
};

}  // namespace uroce
