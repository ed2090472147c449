// SPDX-License-Identifier: Apache-2.0
// The daemon of a session, as the registration of memory sees it.
#pragma once

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/session.h"

namespace uroce::memory {

/// Valid as long as the session. Cheap: made for each call.
Daemon DaemonOf(shim::Session& session);

}  // namespace uroce::memory
