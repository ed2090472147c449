// SPDX-License-Identifier: Apache-2.0
// The socket that programs connect to, and the lock file beside it, which says that a daemon serves
// the socket.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "nic/control/device_tree.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

/// Whether a process listens on the Unix socket at `path` of which nothing says that it is about to
/// end: no signal that ends it waits to be taken, and it is not exiting. A daemon removes its
/// socket before it takes such a signal (Server::Retire), so there is no moment between. False also
/// for a process of another PID namespace, of which this cannot be seen. Does not block.
bool IsServed(const std::string& path);

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

/// A listening socket in the file system, and a lock file beside it, which says that a daemon
/// serves the socket. The destructor removes the socket, and the lock if no other owner has taken
/// it.
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
