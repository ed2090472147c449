// SPDX-License-Identifier: Apache-2.0
// Limits the log lines that a user can cause.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce {

/// Each user may cause kBurst lines at once, and one more in each kInterval. Omitted lines are
/// counted. Pure.
class LogBudget {
 public:
  static constexpr uint32_t kBurst = 50;
  static constexpr Nanos kInterval{500'000'000};

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
    Nanos empty_at{0};  ///< A user's budget is the time since this; a line takes kInterval of it.
    uint64_t omitted = 0;
  };

  std::map<uid_t, User> users_;  ///< Users that have taken lines lately.
};

}  // namespace uroce
