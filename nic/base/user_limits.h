// SPDX-License-Identifier: Apache-2.0
// What one user, one program or one client may have of the daemon: quotas of what it holds, and
// rates of log lines and of the control thread's time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/base/limits.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

// ---- quotas ----

/// The limit and the use of one resource by all programs of a user. Control thread.
struct Quota {
  uint32_t uid = 0;
  uint64_t limit = 0;
  std::string flag;  ///< The setting of the limit, for messages.
  uint64_t used = 0;

  /// Checks that `more` fits; messages call the resource `kind`. Errors: ResourceExhausted.
  absl::Status Check(const char* kind, uint64_t more) const;
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
  /// Call it after Check.
  void Take(uint64_t amount) {
    held_ += amount;
    if (quota_ != nullptr) quota_->used += amount;
  }
  void Give(uint64_t amount) {
    held_ -= amount;
    if (quota_ != nullptr) quota_->used -= amount;
  }

 private:
  Quota* quota_;
  uint64_t held_ = 0;
};

/// Decides which programs and tools may connect: limits them in total and per user. Any thread.
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
