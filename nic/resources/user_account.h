// SPDX-License-Identifier: Apache-2.0
// What the programs of one user hold together.
#pragma once

#include <cstdint>

namespace uroce::nic {

/// Counted against the limits per user. Control thread.
struct UserAccount {
  uint32_t sessions = 0;
  uint64_t memory_bytes = 0;
};

}  // namespace uroce::nic
