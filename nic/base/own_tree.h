// SPDX-License-Identifier: Apache-2.0
// A directory of the daemon, in a place where other users may make files too.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/base/fd.h"

namespace uroce {

/// Names are paths relative to the directory. Nobody else can change what is in it, and no symbolic
/// link is followed. Errors are those of the system calls.
class OwnTree {
 public:
  /// Makes the directory where there is none. Errors: PermissionDenied: it is another user's, or
  /// another may write to it, or no directory.
  static absl::StatusOr<OwnTree> Make(const std::string& path);
  /// An empty directory goes too.
  ~OwnTree();
  OwnTree(OwnTree&&) = default;
  OwnTree& operator=(OwnTree&&) = delete;

  /// Makes its directories too. A reader sees the former text or the new one.
  absl::Status WriteFile(absl::string_view name, absl::string_view text);
  /// A symbolic link to `target`. One that is there stays.
  absl::Status Link(absl::string_view name, const char* target);
  /// Whatever it is, with all that is in it.
  void Remove(absl::string_view name);

 private:
  explicit OwnTree(std::string path, Fd directory);
  /// The directory that holds `name`, of which the last part is left.
  absl::StatusOr<Fd> OpenParent(absl::string_view& name, bool makes_it) const;

  std::string path_;
  Fd directory_;
};

}  // namespace uroce
