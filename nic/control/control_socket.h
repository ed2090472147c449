// SPDX-License-Identifier: Apache-2.0
// The socket that programs connect to.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/base/own_tree.h"
#include "nic/control/socket_lock.h"

namespace uroce::nic {

/// A listening socket in the file system, and a lock file beside it, which says that a daemon
/// serves the socket. The destructor removes the socket, and the lock if nobody has taken it.
class ControlSocket {
 public:
  /// Creates the socket, and its directory if needed. Replaces a socket that no daemon serves.
  /// Errors: AlreadyExists when a daemon serves it; PermissionDenied when another user owns a file
  /// in the place of the lock or of the tree.
  static absl::StatusOr<ControlSocket> Listen(const std::string& path);
  ~ControlSocket();
  ControlSocket(ControlSocket&&) = default;
  ControlSocket& operator=(ControlSocket&&) = delete;

  int fd() const { return listener_.get(); }
  /// Removes the socket's file before the end. Another daemon that wants the path waits from then
  /// on.
  void Retire();
  /// The directory beside the socket, at its path with UROCE_TREE_SUFFIX. Call it once.
  OwnTree TakeTree() { return std::move(tree_); }
  /// For an owner that keeps it for longer than this object lives. Call it once.
  SocketLock TakeLock() { return std::move(lock_); }

 private:
  ControlSocket(std::string path, SocketLock lock, OwnTree tree, Fd listener);

  std::string path_;
  SocketLock lock_;
  OwnTree tree_;
  Fd listener_;
};

}  // namespace uroce::nic
