// SPDX-License-Identifier: Apache-2.0
// Rates: how much of the log and of the control thread's time one user gets.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "pipeline/base/limits.h"
#include "pipeline/base/types.h"

namespace uroce {

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
