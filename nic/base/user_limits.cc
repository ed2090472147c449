// SPDX-License-Identifier: Apache-2.0
#include "nic/base/user_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace uroce::nic {

absl::Status Quota::Check(const char* kind, uint64_t more) const {
  // A limit may have been lowered below what is used.
  if (used <= limit && more <= limit - used) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(kind, ": user ", uid, " holds ", used, " of ", limit, ", see ", flag));
}

Admission::Admission(const Limits& limits) : limits_(limits), counts_(std::make_shared<Counts>()) {}

void Admission::SetLimits(const Limits& limits) {
  const std::lock_guard lock(counts_->mutex);
  limits_ = limits;
}

absl::StatusOr<Admission::Place> Admission::Admit(uid_t uid, bool is_privileged) {
  const std::lock_guard lock(counts_->mutex);
  const auto found = counts_->of_user.find(uid);
  const uint32_t used = found == counts_->of_user.end() ? 0 : found->second;
  const uint32_t total = limits_.total + (is_privileged ? kReserved : 0);
  const uint32_t per_user = limits_.per_user + (is_privileged ? kReserved : 0);
  if (used >= per_user) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "user ", uid, " has ", used, " programs connected, see --max-sessions-per-user"));
  }
  if (counts_->total >= total) {
    return absl::ResourceExhaustedError(
        absl::StrCat(counts_->total, " programs are connected, see --max-sessions"));
  }
  ++counts_->total;
  ++counts_->of_user[uid];
  return Place(nullptr, [counts = counts_, uid](void*) {
    const std::lock_guard leaving(counts->mutex);
    --counts->total;
    if (--counts->of_user[uid] == 0) counts->of_user.erase(uid);
  });
}

}  // namespace uroce::nic

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
