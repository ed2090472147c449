// SPDX-License-Identifier: Apache-2.0
// The cgroups that limit a process.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {

enum class CgroupVersion { k1, k2 };

/// Calls `visit` with the directory of each cgroup by which `controller` may limit a process: the
/// group that `groups` names, as /proc/PID/cgroup does, and the groups above it. `mounts`: the
/// directory at which the hierarchies of cgroups are mounted. It may hold version 1, version 2, or
/// the part of it that a container sees. Some of the directories may not exist.
void ForEachCgroup(const std::string& groups, const std::string& mounts,
                   absl::string_view controller,
                   absl::FunctionRef<void(const std::string& directory, CgroupVersion)> visit);

/// The cgroups of this process, as /proc/self/cgroup names them.
std::string OwnCgroups();

/// Where the hierarchies of cgroups are mounted.
inline constexpr char kCgroupMounts[] = "/sys/fs/cgroup";

}  // namespace uroce::nic
