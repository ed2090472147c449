// SPDX-License-Identifier: Apache-2.0
// The CPUs that this process can use, and how many workers they are enough for.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::nic {

/// The CPUs that this process can use at a time: those that it may run on, or the quota of CPU time
/// of its cgroup or a group above it, in whole CPUs. Reads files of the kernel.
uint32_t UsableCpus();

/// The smaller one of `allowed`, the number of CPUs that the process may run on, and the smallest
/// quota of the cgroups that `groups` names, as /proc/PID/cgroup does, in whole CPUs, rounded down.
/// Range: 1 or more. `mounts`: see ForEachCgroup.
uint32_t UsableCpus(uint32_t allowed, const std::string& groups, const std::string& mounts);

/// The most workers that the daemon chooses by itself.
inline constexpr uint32_t kMostAutoWorkers = 8;

/// The number of workers where the daemon chooses it: a quarter of the CPUs, from 1 to
/// kMostAutoWorkers. Programs and the kernel keep three quarters.
uint32_t AutoWorkers(uint32_t usable_cpus);

}  // namespace uroce::nic
