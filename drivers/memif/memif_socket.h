// SPDX-License-Identifier: Apache-2.0
// The control socket of a memif: where a server listens and a client connects.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce::drivers {

/// Listens at `path`; a socket file that nobody serves is replaced. Errors name path and reason: a
/// server that is alive, another kind of file, a directory that is missing or not writable.
absl::StatusOr<Fd> ListenForMemif(const std::string& path);

/// A socket to the server at `path`; empty while none listens there.
Fd ConnectMemif(const std::string& path);

/// OkStatus where the directory of `path` is there, for a client whose server may come later.
absl::Status CheckMemifDirectory(const std::string& path);

/// The next client of a listener, or empty.
Fd AcceptMemif(int listener);

}  // namespace uroce::drivers
