// SPDX-License-Identifier: Apache-2.0
#include "nic/base/user_limits.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uroce::nic {

bool IsPrivilegedUser(uid_t uid) { return uid == 0 || uid == geteuid(); }

bool Pool::HasRoom(uint64_t held, uint64_t more, bool is_privileged) const {
  const uint64_t most = is_privileged ? size : size - reserve;
  if (used > most || more > most - used) return false;
  const uint64_t left = most - used - more;
  return is_privileged || (held + more) / share <= left;
}

absl::Status Quota::Check(const char* kind, uint64_t more) const {
  // A limit may have been lowered below what is used.
  if (used > limit || more > limit - used) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kind, ": user ", uid, " holds ", used, " of ", limit, ", see ", flag));
  }
  if (pool != nullptr && !pool->HasRoom(used, more, is_privileged)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        kind, ": user ", uid, " holds ", used, ", and all users ", pool->used, " of ", pool->size));
  }
  return bytes == nullptr ? absl::OkStatus() : bytes->Check(kind, more * bytes_each);
}

void Quota::Take(uint64_t amount) {
  used += amount;
  if (pool != nullptr) pool->used += amount;
  if (bytes != nullptr) bytes->Take(amount * bytes_each);
}

void Quota::Give(uint64_t amount) {
  used -= amount;
  if (pool != nullptr) pool->used -= amount;
  if (bytes != nullptr) bytes->Give(amount * bytes_each);
}

namespace {

/// The uids of users, by their names in /etc/passwd.
std::map<std::string, uid_t, std::less<>> UsersIn(const std::string& passwd) {
  std::map<std::string, uid_t, std::less<>> users;
  for (const absl::string_view line : absl::StrSplit(passwd, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ':');
    uid_t uid = 0;
    if (fields.size() < 3 || !absl::SimpleAtoi(fields[2], &uid)) continue;
    users.emplace(fields[0], uid);
  }
  return users;
}

std::string Contents(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

constexpr char kSubuid[] = "/etc/subuid";

}  // namespace

// A line is "user:first:count"; the user is a name or a uid.
LoginUsers::LoginUsers(const std::string& subuid, const std::string& passwd, uid_t own_user)
    : reads_files_(false) {
  std::map<std::string, uid_t, std::less<>> users = UsersIn(passwd);
  for (const absl::string_view line : absl::StrSplit(subuid, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ':');
    uint32_t first = 0, count = 0;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[1], &first) ||
        !absl::SimpleAtoi(fields[2], &count)) {
      continue;
    }
    uid_t user = 0;
    if (!absl::SimpleAtoi(fields[0], &user)) user = users.emplace(fields[0], first).first->second;
    if (user == 0 || user == own_user) continue;
    ranges_.push_back({first, uint64_t{first} + count, user});
  }
  std::ranges::stable_sort(ranges_, {}, &Range::begin);
}

void LoginUsers::ReadIfChanged() {
  struct stat status {};
  if (stat(kSubuid, &status) != 0) return;
  const Version found{int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
                      status.st_size};
  if (found == version_) return;
  version_ = found;
  ranges_ = LoginUsers(Contents(kSubuid), Contents("/etc/passwd"), geteuid()).ranges_;
}

uid_t LoginUsers::Of(uid_t uid) {
  if (IsPrivilegedUser(uid)) return uid;
  if (reads_files_) ReadIfChanged();
  const auto next = std::ranges::upper_bound(ranges_, uint64_t{uid}, {}, &Range::begin);
  if (next == ranges_.begin()) return uid;
  const Range& range = *std::prev(next);
  return uid < range.end ? range.user : uid;
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
  if (!is_privileged && used >= total - counts_->total) {
    return absl::ResourceExhaustedError(absl::StrCat("user ", uid, " has ", used, " of ",
                                                     counts_->total,
                                                     " programs connected, see --max-sessions"));
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
