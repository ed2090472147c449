// SPDX-License-Identifier: Apache-2.0
// The tool's end of the daemon's control socket: one connection, one request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::tools {

/// The socket to talk to: `flag`, else $UROCE_SOCKET, else the daemon's default place: the one of a
/// daemon without root ($XDG_RUNTIME_DIR) when only that one exists.
std::string ResolveSocketPath(const std::string& flag);

/// Connects to the daemon. Errors: kUnavailable, with one line that says how to start it.
absl::StatusOr<Fd> ConnectToDaemon(const std::string& socket_path);

/// Asks for one of the daemon's state dumps and returns its JSON text.
absl::StatusOr<std::string> FetchDump(const std::string& socket_path, uroce_dump_what what);

/// Asks for the newest packets of a queue pair, as the bytes of a pcapng file.
absl::StatusOr<std::string> FetchFlight(const std::string& socket_path, uint32_t qpn);

/// Asks for a change of the network inside. Errors: InvalidArgument, the texts are too long; what
/// the daemon says.
absl::Status RequestChange(const std::string& socket_path, uroce_change_what what,
                           const std::string& target, const std::string& text);

/// A capture under way. It lasts until `socket` closes.
struct CaptureSession {
  Fd socket;
  Fd memory;  ///< Sealed memfd of `reply.map_bytes`.
  uroce_capture_reply reply{};
  std::vector<uroce_capture_interface> interfaces;
};

/// Starts a capture; the reply is checked, so that the rings lie inside the memfd.
absl::StatusOr<CaptureSession> StartCapture(const std::string& socket_path,
                                            const uroce_capture& request);

}  // namespace uroce::tools
