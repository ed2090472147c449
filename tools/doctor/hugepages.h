// SPDX-License-Identifier: Apache-2.0
// Checks hugepages: reserved, free, and enough for a daemon.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

/// The hugepages of one size.
struct HugepagePool {
  uint64_t page_bytes = 0;
  uint64_t total = 0;
  uint64_t free = 0;
};

/// Reads /sys/kernel/mm/hugepages.
std::vector<HugepagePool> ReadHugepages(const Machine& machine);
/// `daemon_runs`: the pages in use may then be the daemon's.
Findings CheckHugepages(const std::vector<HugepagePool>& pools, bool daemon_runs);

}  // namespace uroce::tools
