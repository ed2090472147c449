// SPDX-License-Identifier: Apache-2.0
// The socket that programs connect to.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/base/own_tree.h"

namespace uroce::nic {

/// A listening socket in the file system, and the lock beside it that says that somebody serves it.
/// Both go with this object.
class ControlSocket {
 public:
  /// Makes its directory too. A socket that nobody serves any more is replaced.
  /// Errors: AlreadyExists when a daemon serves it; PermissionDenied when another user has
  /// something in the place of the lock, or of the tree.
  static absl::StatusOr<ControlSocket> Listen(const std::string& path);
  ~ControlSocket();
  ControlSocket(ControlSocket&&) = default;
  ControlSocket& operator=(ControlSocket&&) = delete;

  int fd() const { return listener_.get(); }
  /// For files beside the socket, at its path with UROCE_TREE_SUFFIX. Once.
  OwnTree TakeTree() { return std::move(tree_); }

 private:
  ControlSocket(std::string path, Fd lock, OwnTree tree, Fd listener);

  std::string path_;
  Fd lock_;
  OwnTree tree_;
  Fd listener_;
};

}  // namespace uroce::nic
