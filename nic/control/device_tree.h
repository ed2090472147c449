// SPDX-License-Identifier: Apache-2.0
// The directory of files about the devices, beside the control socket, in a place where other users
// may make files too.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/os/fd.h"

namespace uroce {

/// A directory of the daemon, in a place where other users may make files too. Names are paths
/// relative to the directory. Only the daemon can change its content, and no symbolic link is
/// followed. Errors are those of the system calls.
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
  absl::StatusOr<Fd> Open(absl::string_view name);
  /// Makes a symbolic link to `target`. An existing one stays.
  absl::Status Link(absl::string_view name, const std::string& target);
  /// Removes a file or a directory with all that is in it.
  void Remove(absl::string_view name);

 private:
  explicit OwnTree(std::string path, Fd directory);
  /// Empty, with errno, if it cannot be opened.
  Fd OpenFolder(absl::string_view name, bool makes_it) const;
  /// The directory that holds `name`, open until the next call; reduces `name` to its last part.
  absl::StatusOr<int> FolderOf(absl::string_view& name, bool makes_it);

  std::string path_;
  Fd directory_;
  Fd last_folder_;  ///< Of the last call: files that are written in turn often share theirs.
  std::string last_folder_name_;
};

}  // namespace uroce

namespace uroce::nic {

class Nic;
class NicDevice;

/// Files that describe the devices as /sys and /dev do: liburoce.so redirects programs that read
/// those paths to these files. A directory beside the control socket, for the lifetime of the
/// object. A file that cannot be written affects only programs that look for it: the error is
/// logged once. Control thread.
class DeviceTree {
 public:
  explicit DeviceTree(OwnTree tree);
  ~DeviceTree();
  DeviceTree(const DeviceTree&) = delete;
  DeviceTree& operator=(const DeviceTree&) = delete;

  /// The same directory, for files of others than Publish's.
  OwnTree& tree() { return tree_; }
  /// The directory of a device in it, to which a link leads from its class, as in the kernel.
  static std::string DirectoryOf(const NicDevice& device);
  /// Writes the files that have changed.
  void Publish(const Nic& nic, const NicDevice& device);
  /// Removes all files of a device.
  void Withdraw(const NicDevice& device);

 private:
  using Files = std::map<std::string, std::string>;
  /// The path of one of DeviceFiles(): those in "device/" lie in the directory of the parent.
  static std::string PathOf(const NicDevice& device, absl::string_view file);
  void Remove();
  void Complain(const absl::Status& status);

  OwnTree tree_;
  bool has_failed_ = false;
  std::map<std::string, Files> written_;  ///< By device name.
};

}  // namespace uroce::nic
