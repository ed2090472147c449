// SPDX-License-Identifier: Apache-2.0
// The socket that programs connect to.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nic/resources/fd.h"

namespace uroce::nic {

/// A listening socket in the file system, and the lock beside it that says that somebody serves it.
/// Both go with this object.
class ControlSocket {
 public:
  /// Makes its directory too. A socket that nobody serves any more is replaced.
  /// Errors: AlreadyExists when a daemon serves it.
  static absl::StatusOr<ControlSocket> Listen(const std::string& path);
  ~ControlSocket();
  ControlSocket(ControlSocket&&) = default;
  ControlSocket& operator=(ControlSocket&&) = delete;

  int fd() const { return listener_.get(); }

 private:
  ControlSocket(std::string path, Fd lock, Fd listener);

  std::string path_;
  Fd lock_;
  Fd listener_;
};

}  // namespace uroce::nic
