// SPDX-License-Identifier: Apache-2.0
// The daemon of a session, as the registration of memory sees it.
#pragma once

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/session.h"

namespace uroce::memory {

/// Valid as long as the session. Cheap: made for each call.
Daemon DaemonOf(shim::Session& session);

/// Lends a file by which programs share an XRC domain; `fd` stays the caller's. `*file` is for one
/// UROCE_OPEN_XRCD. Returns 0 or a positive errno. Waits for registrations: the socket is theirs.
[[nodiscard]] int LendXrcFile(shim::Session& session, int fd, uint32_t* file);

}  // namespace uroce::memory
