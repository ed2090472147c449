// SPDX-License-Identifier: Apache-2.0
// Files that describe the devices as /sys and /dev do. liburoce.so redirects programs that read
// those paths to these files.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "nic/base/own_tree.h"

namespace uroce::nic {

class Nic;
class NicDevice;

/// A directory beside the control socket, for the lifetime of the object. A file that cannot be
/// written affects only programs that look for it: the error is logged once. Control thread.
class DeviceTree {
 public:
  explicit DeviceTree(OwnTree tree);
  ~DeviceTree();
  DeviceTree(const DeviceTree&) = delete;
  DeviceTree& operator=(const DeviceTree&) = delete;

  /// The same directory, for files of others than Publish's.
  OwnTree& tree() { return tree_; }
  /// The directory of a device in it.
  static std::string DirectoryOf(const NicDevice& device);
  /// Writes the files that have changed.
  void Publish(const Nic& nic, const NicDevice& device);
  /// Removes all files of a device.
  void Withdraw(const NicDevice& device);

 private:
  using Files = std::map<std::string, std::string>;
  void Remove();
  void Complain(const absl::Status& status);

  OwnTree tree_;
  bool has_failed_ = false;
  std::map<std::string, Files> written_;  ///< By device name.
};

}  // namespace uroce::nic
