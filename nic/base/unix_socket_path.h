// SPDX-License-Identifier: Apache-2.0
// Checks of Unix socket paths, before a driver listens or connects there.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace uroce {

/// Makes sure that a server can listen on `path`: its directory is writable, nobody listens there,
/// and a socket that a former server left behind is removed. Anything else at `path` stays. Errors
/// begin with the path.
absl::Status PrepareServerPath(const std::string& path);

/// Whether somebody listens on `path`. Errors begin with the path and say what is there.
absl::Status CheckServerListens(const std::string& path);

}  // namespace uroce
