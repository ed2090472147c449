// SPDX-License-Identifier: Apache-2.0
// Has DPDK start without those of its drivers that cannot be loaded: a library that a driver needs
// may be missing, or come from another release, as with a newer rdma-core in LD_LIBRARY_PATH.
#pragma once

#include <string>
#include <vector>

namespace uroce::drivers {

/// DPDK loads all drivers of its folder when it starts, and does not start if one of them fails.
/// While an object lives, a driver that its thread cannot load counts as loaded. The object stays
/// on the thread that made it, which has one at a time.
class DriverLoading {
 public:
  DriverLoading();
  ~DriverLoading();
  DriverLoading(const DriverLoading&) = delete;
  DriverLoading& operator=(const DriverLoading&) = delete;

  /// The names of these drivers, each with the reason that the linker gives.
  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Takes note of a driver that cannot be loaded; false: `path` is none.
  bool LeaveOut(const char* path);

 private:
  std::vector<std::string> left_out_;
};

}  // namespace uroce::drivers
