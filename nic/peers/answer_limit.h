// SPDX-License-Identifier: Apache-2.0
// How many questions of whom are answered. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nic/cm/request_limit.h"
#include "nic/peers/types.h"

namespace uroce::nic::peers {

/// Sources share buckets by a hash that they cannot foresee, so that one who floods takes the
/// answers of few others, and memory is bounded whoever asks.
class AnswerLimit {
 public:
  static constexpr size_t kBuckets = 256;
  static constexpr uint32_t kPerSecond = 100;
  static constexpr uint32_t kBurst = 8;

  explicit AnswerLimit(uint64_t secret)
      : secret_(secret), buckets_(kBuckets, cm::RequestLimit(kPerSecond, kBurst)) {}

  /// False: one too many. `now` never goes back.
  bool Take(const Gid& source, Nanos now) { return buckets_[BucketOf(source)].Take(now); }

 private:
  size_t BucketOf(const Gid& source) const {
    uint64_t hash = secret_;
    for (const uint8_t byte : source.bytes) {
      hash = (hash ^ byte) * 0x9e3779b97f4a7c15;  // Golden ratio: spreads every bit upwards.
      hash ^= hash >> 32;
    }
    return hash % kBuckets;
  }

  const uint64_t secret_;
  std::vector<cm::RequestLimit> buckets_;
};

}  // namespace uroce::nic::peers
