// SPDX-License-Identifier: Apache-2.0
// What a daemon started by this user could reach: capabilities and devices.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

/// A device file, and whether this user may open it.
struct DeviceFile {
  bool exists = false;
  bool usable = false;
};

struct PermissionFacts {
  uint64_t capabilities = 0;  ///< Effective ones, bits as in capability.h.
  DeviceFile userfaultfd;
  DeviceFile tun;
  /// errno of the userfaultfd system call in user mode only; 0 when it works.
  int userfaultfd_errno = 0;
};

/// From /proc/self/status and /dev. Makes and closes one userfaultfd.
PermissionFacts ReadPermissions(const Machine& machine);
Findings CheckPermissions(const PermissionFacts& facts);

}  // namespace uroce::tools
