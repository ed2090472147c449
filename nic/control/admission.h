// SPDX-License-Identifier: Apache-2.0
// Decides who may connect: limits programs and tools in total and per user.
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
