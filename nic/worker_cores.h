// SPDX-License-Identifier: Apache-2.0
// Which CPU each worker runs on.
#pragma once

#include <cstdint>
#include <vector>

namespace uroce::nic {

/// The CPU of each worker, or -1 for one that the scheduler places. Several workers get one each of
/// `allowed`, where at least one is left for the programs, so that no two share one while another
/// is free. Others are moved by the scheduler, away from a CPU that a program takes: on two CPUs
/// two workers that stay where they are carry half as much beside two programs that poll.
std::vector<int> WorkerCores(uint32_t workers, const std::vector<int>& allowed);

/// CPUs that this process may run on.
std::vector<int> AllowedCores();

/// The NUMA node of `core`, or -1 where it is not known or `core` is -1.
int NumaNodeOf(int core);

}  // namespace uroce::nic
