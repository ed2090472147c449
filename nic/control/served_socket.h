// SPDX-License-Identifier: Apache-2.0
// Whether a daemon serves a socket, and goes on doing so.
#pragma once

#include <string>

namespace uroce::nic {

/// Whether a process listens on the Unix socket at `path` of which nothing says that it is about to
/// end: no signal that ends it waits to be taken, and it is not exiting. A daemon removes its
/// socket before it takes such a signal (Server::Retire), so there is no moment between. False also
/// for a process of another PID namespace, of which this cannot be seen. Does not block.
bool IsServed(const std::string& path);

}  // namespace uroce::nic
