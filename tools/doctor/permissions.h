// SPDX-License-Identifier: Apache-2.0
// Checks what a daemon that this user starts could use: capabilities and devices.
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
  uint64_t capabilities = 0;  ///< The effective ones, with bits as in capability.h.
  DeviceFile userfaultfd;
  DeviceFile tun;
  /// errno of the userfaultfd system call in user mode only; 0 when it works.
  int userfaultfd_errno = 0;
};

/// Reads /proc/self/status and /dev. Makes and closes one userfaultfd.
PermissionFacts ReadPermissions(const Machine& machine);
Findings CheckPermissions(const PermissionFacts& facts);

}  // namespace uroce::tools
