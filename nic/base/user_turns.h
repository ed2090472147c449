// SPDX-License-Identifier: Apache-2.0
// How the control thread shares its time among users, and among the connections of one user.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>

#include "pipeline/base/types.h"

namespace uroce {

/// In each turn of the loop a user's connections get a millisecond together. Those that find it
/// used up come first in the next turn, in their order. The last one may take longer: what it asks
/// for is not interrupted. Pure.
class UserTurns {
 public:
  static constexpr Nanos kTurnTime{1'000'000};

  /// Until when connection `id` of user `uid` may ask for things in turn `turn`; `now`: not in this
  /// turn.
  Nanos Enter(uid_t uid, uint64_t id, uint64_t turn, Nanos now);
  /// After an Enter that let it in: so long it took.
  void Leave(uid_t uid, Nanos taken);
  /// It will not come again.
  void Forget(uid_t uid, uint64_t id);

 private:
  struct User {
    uint64_t turn = 0;
    Nanos left{0};
    std::deque<uint64_t> waiting;
  };

  std::map<uid_t, User> users_;  ///< Those that have connections, or had some.
};

}  // namespace uroce
