// SPDX-License-Identifier: Apache-2.0
// Checks the kernel's version and the CPU against the needs of uroce.
#pragma once

#include <cstdint>
#include <string>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

struct KernelFacts {
  int major = 0;
  int minor = 0;
  int cpus = 0;
  std::string cpu_flags;   ///< As /proc/cpuinfo lists them.
  std::string crc_kernel;  ///< The variant of the ICRC that this machine runs.
  uint64_t page_bytes = 4096;
};

KernelFacts ReadKernel(const Machine& machine);
Findings CheckKernel(const KernelFacts& facts);

}  // namespace uroce::tools
