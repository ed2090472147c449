// SPDX-License-Identifier: Apache-2.0
// The tool's connection to the daemon's control socket: one connection, one request.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::tools {

/// The socket to use: `flag`, else $UROCE_SOCKET, else the daemon's default path. That is the path
/// of a daemon without root ($XDG_RUNTIME_DIR) when only that one exists.
std::string ResolveSocketPath(const std::string& flag);

/// Connects to the daemon. Errors: kUnavailable, with one line that says how to start it.
absl::StatusOr<Fd> ConnectToDaemon(const std::string& socket_path);

/// The process at the other end; 0 if it is in a namespace that this one does not see.
pid_t PeerPid(int socket);
/// Whether a process has got SIGSTOP, or a debugger holds it: then it answers no request.
bool IsStopped(pid_t pid);

/// Asks for one of the daemon's state dumps and returns its JSON text.
absl::StatusOr<std::string> FetchDump(const std::string& socket_path, uroce_dump_what what);

/// Dumps of one daemon, one after the other, on one connection. A tool that watches a daemon learns
/// of its end, at once and even if another one serves the socket since.
class DumpClient {
 public:
  explicit DumpClient(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  /// As FetchDump. The first one connects. Errors: those of FetchDump; from the second on DataLoss
  /// when the daemon has ended.
  absl::StatusOr<std::string> Fetch(uroce_dump_what what);
  /// Waits, for less if the daemon ends. Range: a dump was fetched.
  void Await(double seconds) const;
  /// Whether the daemon has ended. Range: a dump was fetched.
  bool HasEnded() const;

 private:
  const std::string socket_path_;
  Fd socket_;
  bool has_dump_ = false;
};

/// Calls `take` with each line of the daemon's events, without its end, until it returns false
/// (pipeline/shm/abi/uroce_events.h). Errors: DataLoss, the daemon has ended; or FetchDump's.
absl::Status FollowEvents(const std::string& socket_path,
                          const std::function<bool(const std::string& line)>& take);

/// Asks for the newest packets of a queue pair, as the bytes of a pcapng file.
absl::StatusOr<std::string> FetchHistory(const std::string& socket_path, uint32_t qpn);

/// Requests a change of the emulated network. Errors: InvalidArgument when the texts are too long;
/// or the daemon's errors.
absl::Status RequestChange(const std::string& socket_path, uroce_change_what what,
                           const std::string& target, const std::string& text);

/// A capture that runs. It ends when `socket` closes.
struct CaptureSession {
  Fd socket;
  Fd memory;  ///< Sealed memfd of `reply.map_bytes`.
  uroce_capture_reply reply{};
  std::vector<uroce_capture_interface> interfaces;
};

/// Starts a capture, and checks in the reply that the rings lie inside the memfd.
absl::StatusOr<CaptureSession> StartCapture(const std::string& socket_path,
                                            const uroce_capture& request);

}  // namespace uroce::tools
