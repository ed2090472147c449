// SPDX-License-Identifier: Apache-2.0
// The file that says that a daemon serves a socket.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce::nic {

/// What to do about a file of another user at the path of the socket or of its lock.
inline constexpr char kForeignFileRemedy[] =
    "; remove it, or give a --socket in a directory where nobody else makes files";

/// The lock file beside a control socket, which the daemon holds until its ports are closed. The
/// destructor removes it.
class SocketLock {
 public:
  /// Waits for a daemon that is about to end, for 3 s at most; not for one that goes on (IsServed).
  /// Errors: AlreadyExists when another daemon has the lock still; PermissionDenied when another
  /// user owns the file.
  static absl::StatusOr<SocketLock> Take(const std::string& socket_path);
  SocketLock() = default;
  ~SocketLock();
  SocketLock(SocketLock&&) = default;
  SocketLock& operator=(SocketLock&&) = delete;

 private:
  SocketLock(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;  ///< Empty: there is nothing to remove.
};

}  // namespace uroce::nic
