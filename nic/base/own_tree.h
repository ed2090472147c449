// SPDX-License-Identifier: Apache-2.0
// A directory of the daemon, in a place where other users may make files too.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/base/fd.h"

namespace uroce {

/// Names are paths relative to the directory. Nobody else can change its content, and no symbolic
/// link is followed. Errors are those of the system calls.
class OwnTree {
 public:
  /// Makes the directory if there is none. Errors: PermissionDenied when another user owns it or
  /// may write to it, or when it is no directory.
  static absl::StatusOr<OwnTree> Make(const std::string& path);
  /// Removes the directory if it is empty.
  ~OwnTree();
  OwnTree(OwnTree&&) = default;
  OwnTree& operator=(OwnTree&&) = delete;

  /// Writes a file, and makes its directories. A reader sees the former text or the new one.
  absl::Status WriteFile(absl::string_view name, absl::string_view text);
  /// Opens a file for reading and writing. `name` must be a file.
  absl::StatusOr<Fd> Open(absl::string_view name) const;
  /// Makes a symbolic link to `target`. An existing one stays.
  absl::Status Link(absl::string_view name, const char* target);
  /// Removes a file or a directory with all that is in it.
  void Remove(absl::string_view name);

 private:
  explicit OwnTree(std::string path, Fd directory);
  /// Opens the directory that holds `name`, and reduces `name` to its last part.
  absl::StatusOr<Fd> OpenParent(absl::string_view& name, bool makes_it) const;

  std::string path_;
  Fd directory_;
};

}  // namespace uroce
