// SPDX-License-Identifier: Apache-2.0
// Rates: how much of the control thread's time and of the log one user gets.
#include "nic/base/rate.h"

#include <algorithm>

namespace uroce {
namespace {

constexpr Nanos kFull = LogBudget::kInterval * LogBudget::kBurst;

}  // namespace

// A user's budget is the time since the bucket was empty; a line takes kInterval of it.
bool LogBudget::Take(uid_t uid, Nanos now) {
  const auto [found, is_new] = users_.try_emplace(uid);
  User& user = found->second;
  user.empty_at = is_new ? now - kFull : std::max(user.empty_at, now - kFull);
  if (now - user.empty_at < kInterval) {
    ++user.omitted;
    return false;
  }
  user.empty_at = user.empty_at + kInterval;
  return true;
}

std::vector<LogBudget::Omission> LogBudget::TakeOmissions(Nanos now) {
  std::vector<Omission> omissions;
  for (auto& [uid, user] : users_) {
    if (user.omitted == 0 || now - user.empty_at < kInterval) continue;
    omissions.push_back({uid, user.omitted});
    user.omitted = 0;
    user.empty_at = user.empty_at + kInterval;
  }
  std::erase_if(users_, [now](const auto& entry) {
    return entry.second.omitted == 0 && now - entry.second.empty_at >= kFull;
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
