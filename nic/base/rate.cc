// SPDX-License-Identifier: Apache-2.0
// Rates: how much of the log and of the control thread's time one user gets.
#include "nic/base/rate.h"

#include <algorithm>

namespace uroce {

bool LogBudget::Take(uid_t uid, Nanos now) {
  User& user = users_[uid];
  if (user.lines.Take(now)) return true;
  ++user.omitted;
  return false;
}

std::vector<LogBudget::Omission> LogBudget::TakeOmissions(Nanos now) {
  std::vector<Omission> omissions;
  for (auto& [uid, user] : users_) {
    if (user.omitted == 0 || !user.lines.Take(now)) continue;
    omissions.push_back({uid, user.omitted});
    user.omitted = 0;
  }
  std::erase_if(users_, [now](const auto& entry) {
    return entry.second.omitted == 0 && entry.second.lines.IsFull(now);
  });
  return omissions;
}

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
