// SPDX-License-Identifier: Apache-2.0
// Limits the rate of requests, of one source and of all. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::nic::cm {

/// A limit of all requests together. It allows a number of requests per second, and a burst of
/// requests that arrive together. Requests above that are dropped: a well-behaved peer repeats
/// them.
class RequestLimit {
 public:
  /// Range: both at least 1.
  RequestLimit(uint32_t per_second, uint32_t burst)
      : interval_(1'000'000'000 / per_second), window_(interval_ * (int64_t{burst} - 1)) {}

  /// `now` never goes back. False: the request is above the limit.
  bool Take(Nanos now) {
    if (next_ > now + window_) return false;
    next_ = std::max(next_, now) + interval_;
    return true;
  }

 private:
  Nanos interval_;
  Nanos window_;
  Nanos next_{INT64_MIN / 2};  ///< The time of the next request if all kept the interval.
};

/// A limit for each source address. Sources share buckets by a hash that they cannot predict. A
/// source that floods therefore blocks few others, and memory is bounded for any number of sources.
class SourceLimit {
 public:
  static constexpr size_t kBuckets = 256;

  /// `secret` is random. `per_second` and `burst` apply to each bucket, as in RequestLimit.
  SourceLimit(uint64_t secret, uint32_t per_second, uint32_t burst)
      : secret_(secret), buckets_(kBuckets, RequestLimit(per_second, burst)) {}

  /// False: the request is above the limit. `now` never goes back.
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
  std::vector<RequestLimit> buckets_;
};

}  // namespace uroce::nic::cm
