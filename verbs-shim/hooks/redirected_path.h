// SPDX-License-Identifier: Apache-2.0
// Paths of the program that lead into the daemon's directory, where the devices' files of /sys and
// /dev lie.
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::shim {

/// Writes to `place`, of `room` bytes, the path under `tree` that the daemon has in place of
/// `path`, which begins with a slash. Repeated slashes, "." and ".." in front of a device's name
/// change nothing. False: `path` is not redirected, or the name does not fit. Pure.
bool RedirectPath(const char* path, const char* tree, char* place, size_t room);

/// A path that the program gives to libc, and the path to use in its place. Paths that are not
/// ours, and those of which the kernel has a file, are used unchanged. Async-signal-safe; errno is
/// kept.
class ProgramPath {
 public:
  /// `directory` is what a relative path begins at: an fd, or AT_FDCWD.
  explicit ProgramPath(const char* path, int directory = AT_FDCWD) : given_(path), used_(path) {
    if (path != nullptr && MayBeOurs(path)) Redirect(directory);
  }
  ProgramPath(const ProgramPath&) = delete;
  ProgramPath& operator=(const ProgramPath&) = delete;

  /// Whether `path` has the name of one of our directories, as each path that is ours has.
  static bool MayBeOurs(const char* path) {
    return strstr(path, "infiniband") != nullptr || strstr(path, UROCE_TREE_BUS_NAME) != nullptr ||
           strstr(path, "nvidia_peermem") != nullptr || strstr(path, "memory_peers") != nullptr;
  }

  const char* given() const { return given_; }
  const char* get() const { return used_; }
  bool is_ours() const { return used_ == place_; }
  /// Whether it is a node in /dev: ours is a link to a character device, and programs must see the
  /// device that it leads to.
  bool is_node() const { return is_node_; }
  /// Flags of fstatat(2).
  int Follow(int flags) const { return is_node() ? flags & ~AT_SYMLINK_NOFOLLOW : flags; }

 private:
  static constexpr size_t kRoom = 512;

  void Redirect(int directory);

  const char* const given_;
  const char* used_;
  bool is_node_ = false;
  char place_[kRoom];
};

}  // namespace uroce::shim
