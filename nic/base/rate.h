// SPDX-License-Identifier: Apache-2.0
// Rates: how many requests of the network are answered, and how much of the log and of the control
// thread's time one user gets.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce {

/// The rate of events: a number per second, and a burst of events that come together. Pure.
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
/// Requests above the rate are dropped: a well-behaved peer repeats them. Pure.
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

/// Limits the log lines that a user can cause: a bucket for each user. Omitted lines are counted.
/// Pure.
class LogBudget {
 public:
  static constexpr uint32_t kPerSecond = 2;
  static constexpr uint32_t kBurst = 50;
  static constexpr Nanos kInterval{1'000'000'000 / kPerSecond};

  /// Whether a line that `uid` causes is written. Times never go back.
  bool Take(uid_t uid, Nanos now);

  struct Omission {
    uid_t uid = 0;
    uint64_t lines = 0;
  };
  /// Takes the counts of omitted lines, of users with a line left, which the report uses up.
  std::vector<Omission> TakeOmissions(Nanos now);

 private:
  struct User {
    TokenBucket lines{kPerSecond, kBurst};
    uint64_t omitted = 0;
  };

  std::map<uid_t, User> users_;  ///< Users that have taken lines lately.
};

/// Shares the control thread's time among users, and among the connections of one user.
///
/// In each turn of the loop a user's connections get a millisecond together. Connections that find
/// it used up come first in the next turn, in their order. The last request may exceed the time,
/// since requests are not interrupted. Pure.
class UserTurns {
 public:
  static constexpr Nanos kTurnTime{1'000'000};

  /// The time until which connection `id` of user `uid` may make requests in turn `turn`. `now`:
  /// none in this turn.
  Nanos Enter(uid_t uid, uint64_t id, uint64_t turn, Nanos now);
  /// Called after an Enter that allowed requests: they took this long.
  void Leave(uid_t uid, Nanos taken);
  /// Called when the connection has ended.
  void Forget(uid_t uid, uint64_t id);

 private:
  struct User {
    uint64_t turn = 0;
    Nanos left{0};
    std::deque<uint64_t> waiting;
  };

  std::map<uid_t, User> users_;  ///< Users that have connections, or had some.
};

}  // namespace uroce
