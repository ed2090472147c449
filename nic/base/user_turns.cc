// SPDX-License-Identifier: Apache-2.0
#include "nic/base/user_turns.h"

#include <algorithm>

namespace uroce {

Nanos UserTurns::Enter(uid_t uid, uint64_t id, uint64_t turn, Nanos now) {
  User& user = users_[uid];
  if (user.turn != turn) {
    user.turn = turn;
    user.left = kTurnTime;
  }
  const bool is_next = user.waiting.empty() || user.waiting.front() == id;
  if (is_next && user.left > Nanos(0)) {
    if (!user.waiting.empty()) user.waiting.pop_front();
    return now + user.left;
  }
  if (std::ranges::find(user.waiting, id) == user.waiting.end()) user.waiting.push_back(id);
  return now;
}

void UserTurns::Leave(uid_t uid, Nanos taken) {
  Nanos& left = users_[uid].left;
  left = left - taken;
}

void UserTurns::Forget(uid_t uid, uint64_t id) { std::erase(users_[uid].waiting, id); }

}  // namespace uroce
