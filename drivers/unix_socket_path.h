// SPDX-License-Identifier: Apache-2.0
// Unix sockets that drivers make or connect to, looked at before they do.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace uroce::drivers {

/// Makes sure that a server can listen on `path`: its directory can be written, nobody listens
/// there, and a socket that a server left behind is removed. Anything else at `path` stays.
/// Errors begin with the path.
absl::Status PrepareServerPath(const std::string& path);

/// Whether somebody listens on `path`. Errors begin with the path and say what is there.
absl::Status CheckServerListens(const std::string& path);

}  // namespace uroce::drivers
