// SPDX-License-Identifier: Apache-2.0
// Whether libraries can be preloaded into a program.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace uroce::tools {

/// Ok for programs that the dynamic linker starts, for scripts, and for files that do not exist or
/// cannot be read: running those reports the error. Errors: FailedPrecondition, with the reason,
/// for programs into which no library can be preloaded.
absl::Status CheckTakesPreload(const std::string& program);

}  // namespace uroce::tools
