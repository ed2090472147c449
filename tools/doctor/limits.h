// SPDX-License-Identifier: Apache-2.0
// Checks limits that a running daemon and its programs may reach.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

/// The daemon, or a process that registered memory.
struct ProcessFacts {
  pid_t pid = 0;
  std::string name;
  std::optional<uint64_t> maps;        ///< Mappings; absent when this user may not count them.
  std::optional<uint64_t> open_files;  ///< Descriptors.
  std::optional<uint64_t> max_files;   ///< RLIMIT_NOFILE; ~0 is unlimited.
};

struct LimitFacts {
  std::optional<uint64_t> max_map_count;
  std::optional<uint64_t> memlock_bytes;   ///< RLIMIT_MEMLOCK of this user; ~0 is unlimited.
  std::optional<uint64_t> rmem_max_bytes;  ///< Of a socket's receive buffer.
  bool vfio_in_use = false;                ///< A NIC is bound to vfio-pci: its memory is locked.
  std::vector<ProcessFacts> processes;
};

/// `pids` are those of the daemon and of programs with memory regions.
LimitFacts ReadLimits(const Machine& machine, const std::vector<pid_t>& pids);
Findings CheckLimits(const LimitFacts& facts);

}  // namespace uroce::tools
