// SPDX-License-Identifier: Apache-2.0
// Chooses the CPU on which each worker runs.
#pragma once

#include <cstdint>
#include <vector>

namespace uroce::nic {

/// Returns the CPU of each worker, or -1 for a worker that the scheduler places. Several workers
/// get one CPU of `allowed` each if at least one CPU is left for the programs: then no two share a
/// CPU while another is free. Otherwise the scheduler moves them away from CPUs that programs take:
/// on two CPUs, two pinned workers carry half as much beside two programs that poll.
std::vector<int> WorkerCores(uint32_t workers, const std::vector<int>& allowed);

/// Returns the CPUs that this process may run on.
std::vector<int> AllowedCores();

/// Returns the NUMA node of `core`, or -1 if it is unknown or `core` is -1.
int NumaNodeOf(int core);

}  // namespace uroce::nic
