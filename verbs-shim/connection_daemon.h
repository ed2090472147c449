// SPDX-License-Identifier: Apache-2.0
// The daemon of a connection, as the code that registers memory uses it.
#pragma once

#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/memory/daemon.h"

namespace uroce::memory {

/// Valid as long as the connection. Cheap: callers make one for each call.
Daemon DaemonOf(shim::DaemonConnection& connection);

/// Lends a file by which programs share an XRC domain; the caller keeps `fd`. `*file` is for one
/// UROCE_OPEN_XRCD. Returns 0 or a positive errno. Waits for registrations, which use the same
/// socket.
[[nodiscard]] int LendXrcFile(shim::DaemonConnection& connection, int fd, uint32_t* file);

}  // namespace uroce::memory
