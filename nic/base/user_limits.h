// SPDX-License-Identifier: Apache-2.0
// What one user, one program or one client may have of the daemon: quotas of what it holds, and
// rates of log lines and of the control thread's time.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/base/limits.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Whether `uid` is root or the daemon's own user, who may take and see all.
bool IsPrivilegedUser(uid_t uid);

// ---- quotas ----

/// What all users hold of one resource of the daemon. A user may hold at most `share` times as much
/// as is left for the others, so that shares become smaller as further users come, and each user
/// finds something. Root and the daemon's own user may take all, a reserve too that is for them
/// alone. Control thread.
struct Pool {
  uint64_t size = 0;
  uint64_t reserve = 0;  ///< A part of `size`.
  uint64_t share = 1;
  uint64_t used = 0;

  /// Whether a user that holds `held` may take `more`.
  bool HasRoom(uint64_t held, uint64_t more, bool is_privileged) const;
};

/// The limit and the use of one resource by all programs of a user. Control thread.
struct Quota {
  uint32_t uid = 0;
  uint64_t limit = 0;
  std::string flag;      ///< The setting of the limit, for messages.
  Pool* pool = nullptr;  ///< What all users share; null: nothing.
  bool is_privileged = false;
  uint64_t used = 0;
  // What it takes of another quota, which counts bytes of the daemon's memory; null: nothing.
  Quota* bytes = nullptr;
  uint64_t bytes_each = 0;

  /// Call it after Check.
  void Take(uint64_t amount);
  void Give(uint64_t amount);
  /// Checks that `more` fits; messages call the resource `kind`. Errors: ResourceExhausted.
  absl::Status Check(const char* kind, uint64_t more) const;
  /// What is left below half of the limit.
  uint64_t room_in_half() const { return limit / 2 - std::min(used, limit / 2); }
};

/// One program's share of a quota, returned by the destructor. Without a quota there is no limit.
class QuotaShare {
 public:
  explicit QuotaShare(Quota* quota = nullptr) : quota_(quota) {}
  QuotaShare(QuotaShare&& other) noexcept
      : quota_(std::exchange(other.quota_, nullptr)), held_(std::exchange(other.held_, 0)) {}
  QuotaShare& operator=(QuotaShare&&) = delete;
  ~QuotaShare() { Give(held_); }

  /// As Quota::Check.
  absl::Status Check(const char* kind, uint64_t more) const {
    return quota_ == nullptr ? absl::OkStatus() : quota_->Check(kind, more);
  }
  /// As Quota::room_in_half.
  uint64_t room_in_half() const { return quota_ == nullptr ? UINT64_MAX : quota_->room_in_half(); }
  /// Call it after Check.
  void Take(uint64_t amount) {
    held_ += amount;
    if (quota_ != nullptr) quota_->Take(amount);
  }
  void Give(uint64_t amount) {
    held_ -= amount;
    if (quota_ != nullptr) quota_->Give(amount);
  }

 private:
  Quota* quota_;
  uint64_t held_ = 0;
};

/// Finds the login user behind a uid. A login user has further uids, those of a range in
/// /etc/subuid, for containers without privilege: all of them count as the login user. Ranges of
/// root and of the daemon's own user are left out. Control thread.
class LoginUsers {
 public:
  /// Reads the files whenever the first has changed.
  LoginUsers() = default;
  /// With the contents of /etc/subuid and /etc/passwd. A user that only a directory service knows
  /// counts as the first uid of its first range.
  LoginUsers(const std::string& subuid, const std::string& passwd, uid_t own_user);

  /// The login user, or `uid` itself.
  uid_t Of(uid_t uid);

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    uid_t user = 0;
  };
  /// When the file was changed, and its size.
  struct Version {
    int64_t time_ns = 0;
    int64_t bytes = 0;
    bool operator==(const Version&) const = default;
  };
  void ReadIfChanged();

  bool reads_files_ = true;
  Version version_;
  std::vector<Range> ranges_;
};

/// Decides which programs and tools may connect: limits them in total and per user. As with Pool, a
/// user gets no more places than are left for others. Any thread.
class Admission {
 public:
  /// Places beyond the limit for privileged users only, who can then see who took the others.
  static constexpr uint32_t kReserved = 16;

  struct Limits {
    uint32_t total = 0;
    uint32_t per_user = 0;
  };

  explicit Admission(const Limits& limits);
  /// Applies to those who come from now on.
  void SetLimits(const Limits& limits);

  /// The place of one connection. Holders of what the connection left behind may keep it longer, so
  /// that reconnecting gains nothing. A place may outlive the Admission.
  using Place = std::shared_ptr<void>;

  /// Errors: ResourceExhausted, with a text for the refused program.
  absl::StatusOr<Place> Admit(uid_t uid, bool is_privileged);

 private:
  struct Counts {
    std::mutex mutex;
    uint32_t total = 0;
    std::map<uid_t, uint32_t> of_user;
  };

  Limits limits_;  ///< Under the mutex of the counts.
  const std::shared_ptr<Counts> counts_;
};

/// A queue of what several users cause, in the order in which they cause it. The owner that
/// bounds it takes the excess from the users that have most. Pure.
template <typename T>
class SharedQueue {
 public:
  void Add(uid_t uid, T item) { entries_.push_back({uid, std::move(item)}); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  struct Entry {
    uid_t uid;
    T item;
  };
  const std::deque<Entry>& entries() const { return entries_; }  ///< Oldest first.
  Entry& front() { return entries_.front(); }
  void RemoveFront() { entries_.pop_front(); }

  /// While there are more than `most`: removes and returns the oldest entry of the user that has
  /// most; of several such users, the oldest entry of all.
  std::optional<T> TakeExcess(size_t most) {
    if (entries_.size() <= most) return std::nullopt;
    std::map<uid_t, size_t> counts;
    for (const Entry& entry : entries_) ++counts[entry.uid];
    auto chosen = entries_.begin();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (counts[at->uid] > counts[chosen->uid]) chosen = at;
    }
    T item = std::move(chosen->item);
    entries_.erase(chosen);
    return item;
  }

 private:
  std::deque<Entry> entries_;
};

}  // namespace uroce::nic

namespace uroce {

// ---- rates ----

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
