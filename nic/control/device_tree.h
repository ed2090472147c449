// SPDX-License-Identifier: Apache-2.0
// Files that describe the devices as /sys and /dev do. liburoce.so redirects programs that look
// there to these files.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "nic/base/own_tree.h"

namespace uroce::nic {

class Nic;
class NicDevice;

/// A directory beside the control socket, for as long as the object lives. What cannot be written
/// is missed by programs that look for it, and by nobody else: it is said once. Control thread.
class DeviceTree {
 public:
  explicit DeviceTree(OwnTree tree);
  ~DeviceTree();
  DeviceTree(const DeviceTree&) = delete;
  DeviceTree& operator=(const DeviceTree&) = delete;

  /// Writes what is not as it was.
  void Publish(const Nic& nic, const NicDevice& device);

 private:
  using Files = std::map<std::string, std::string>;
  void Remove();
  void Complain(const absl::Status& status);

  OwnTree tree_;
  bool has_failed_ = false;
  std::map<std::string, Files> written_;  ///< By device.
};

}  // namespace uroce::nic
