// SPDX-License-Identifier: Apache-2.0
// The CPUs that this process can use, and how many workers the daemon starts by itself.
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

/// The number of workers where the daemon chooses it: one for four CPUs, so that programs and the
/// kernel keep three quarters, and one for half a GiB of `memory_bytes`, since each worker brings
/// 36 MB of frames. Range: 1 to kMostAutoWorkers.
uint32_t AutoWorkers(uint32_t usable_cpus, uint64_t memory_bytes);

}  // namespace uroce::nic
