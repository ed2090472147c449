// SPDX-License-Identifier: Apache-2.0
// The daemon of a connection, as the registration of memory sees it.
#pragma once

#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/memory/daemon.h"

namespace uroce::memory {

/// Valid as long as the connection. Cheap: made for each call.
Daemon DaemonOf(shim::DaemonConnection& connection);

/// Lends a file by which programs share an XRC domain; `fd` stays the caller's. `*file` is for one
/// UROCE_OPEN_XRCD. Returns 0 or a positive errno. Waits for registrations: the socket is theirs.
[[nodiscard]] int LendXrcFile(shim::DaemonConnection& connection, int fd, uint32_t* file);

}  // namespace uroce::memory
