// SPDX-License-Identifier: Apache-2.0
// Limits as values: how many places one of several holders gets, and how often events may come.
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce {

/// Divides a number of places among holders, so that none can take all of them.
///
/// A holder gets another place while it has fewer than twice as many as are left. So a single
/// holder gets two thirds of all, several greedy holders get equal shares, and a later one finds
/// some left (Choudhury and Hahne's dynamic thresholds for packet buffers).
template <typename Holder>
class FairShare {
 public:
  explicit FairShare(uint32_t places) : left_(places) {}

  /// False: the holder has enough, or none is left.
  bool Take(const Holder& holder) {
    const uint32_t held = HeldBy(holder);
    if (held >= uint64_t{2} * left_) return false;
    held_[holder] = held + 1;
    --left_;
    return true;
  }
  /// Range: the holder has taken one.
  void Return(const Holder& holder) {
    const auto found = held_.find(holder);
    ++left_;
    if (--found->second == 0) held_.erase(found);
  }
  uint32_t HeldBy(const Holder& holder) const {
    const auto found = held_.find(holder);
    return found == held_.end() ? 0 : found->second;
  }

 private:
  uint32_t left_;
  std::map<Holder, uint32_t> held_;
};

/// The rate of events: a number per second, and a burst of events that come together.
class TokenBucket {
 public:
  /// Range: both at least 1.
  TokenBucket(uint32_t per_second, uint32_t burst)
      : interval_(1'000'000'000 / per_second), window_(interval_ * (int64_t{burst} - 1)) {}

  /// Whether there is a token. Times never go back.
  bool Has(Nanos now) const { return next_ <= now + window_; }
  /// Whether the whole burst is there.
  bool IsFull(Nanos now) const { return next_ <= now; }
  /// False: there is no token, and the event is above the rate.
  bool Take(Nanos now) {
    if (!Has(now)) return false;
    next_ = std::max(next_, now) + interval_;
    return true;
  }

 private:
  Nanos interval_;
  Nanos window_;
  Nanos next_{INT64_MIN / 2};  ///< The time of the next event if all kept the interval.
};

/// A rate for each source address. Sources share buckets by a hash that they cannot predict. A
/// source that floods therefore blocks few others, and memory is bounded for any number of sources.
/// Requests above the rate are dropped: a well-behaved peer repeats them.
class SourceLimit {
 public:
  static constexpr size_t kBuckets = 256;

  /// `secret` is random. `per_second` and `burst` apply to each bucket, as in TokenBucket.
  SourceLimit(uint64_t secret, uint32_t per_second, uint32_t burst)
      : secret_(secret), buckets_(kBuckets, TokenBucket(per_second, burst)) {}

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
  std::vector<TokenBucket> buckets_;
};

}  // namespace uroce
