// SPDX-License-Identifier: Apache-2.0
// Who may connect: so many programs and tools in all, and so many of one user.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

namespace uroce::nic {

/// Counts connections. Any thread.
class Admission {
 public:
  /// Places beyond the limit that only the privileged may take: to see who took the others.
  static constexpr uint32_t kReserved = 16;

  struct Limits {
    uint32_t total = 0;
    uint32_t per_user = 0;
  };

  explicit Admission(const Limits& limits);

  /// One connection's place; others that hold on to what the connection left behind may keep it
  /// longer, so that leaving and coming again gains nothing. Outlives the Admission if it must.
  using Place = std::shared_ptr<void>;

  /// Errors: ResourceExhausted, with a text for the program that is turned away.
  absl::StatusOr<Place> Admit(uid_t uid, bool is_privileged);

 private:
  struct Counts {
    std::mutex mutex;
    uint32_t total = 0;
    std::map<uid_t, uint32_t> of_user;
  };

  const Limits limits_;
  const std::shared_ptr<Counts> counts_;
};

}  // namespace uroce::nic
