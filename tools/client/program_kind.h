// SPDX-License-Identifier: Apache-2.0
// Whether libraries can be preloaded into a program.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace uroce::tools {

/// Ok for programs that the dynamic linker starts, for scripts, and for what is not there or cannot
/// be read: running it will tell. Errors: FailedPrecondition, with the reason, for programs into
/// which nothing can be preloaded.
absl::Status CheckTakesPreload(const std::string& program);

}  // namespace uroce::tools
