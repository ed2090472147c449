// SPDX-License-Identifier: Apache-2.0
// The control socket of a memif: a server listens on it, and a client connects to it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce::drivers {

/// Listens at `path`, and replaces a socket file that nobody serves. Errors name path and reason: a
/// live server, another kind of file, a directory that is missing or not writable.
absl::StatusOr<Fd> ListenForMemif(const std::string& path);

/// A socket connected to the server at `path`; empty while no server listens there.
Fd ConnectMemif(const std::string& path);

/// OkStatus when the directory of `path` exists, for a client whose server may start later.
absl::Status CheckMemifDirectory(const std::string& path);

/// Accepts the next client of a listener; empty when none waits.
Fd AcceptMemif(int listener);

}  // namespace uroce::drivers
