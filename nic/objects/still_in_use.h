// SPDX-License-Identifier: Apache-2.0
// The refusal to destroy what other objects use.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce::nic {

/// `kind` as programs know it: "cq", "pd".
inline absl::Status StillInUse(const char* kind, uint32_t users) {
  return absl::FailedPreconditionError(absl::StrCat(kind, ": ", users, " objects still use it"));
}

}  // namespace uroce::nic
