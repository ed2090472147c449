// SPDX-License-Identifier: Apache-2.0
// The memory that this process can have.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::nic {

/// The bytes of memory that this process and its programs can have: the machine's memory, or the
/// smallest limit of the process's memory cgroup and the groups above it. Reads files of the
/// kernel.
uint64_t MemoryLimit();

/// The smallest limit of the memory cgroup that `groups` names, as /proc/PID/cgroup does, and of
/// the groups above it; UINT64_MAX without one. `mounts`: the directory at which the hierarchies of
/// cgroups are mounted. It may hold version 1, version 2, or the part of it that a container sees.
uint64_t CgroupMemoryLimit(const std::string& groups, const std::string& mounts);

}  // namespace uroce::nic
