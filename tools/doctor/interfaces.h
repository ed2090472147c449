// SPDX-License-Identifier: Apache-2.0
// Checks kernel interfaces that a port could use, and the RoCE packets that their MTU carries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

struct KernelInterface {
  std::string name;
  uint32_t mtu_bytes = 0;
  bool up = false;
};

/// The largest path MTU (256 to 4096) whose packets fit an IP MTU; 0 when none does.
uint32_t RoceMtu(uint32_t mtu_bytes);

/// The Ethernet interfaces in /sys/class/net, without the loopback interface.
std::vector<KernelInterface> ReadInterfaces(const Machine& machine);
Findings CheckInterfaces(const std::vector<KernelInterface>& interfaces);

}  // namespace uroce::tools
