// SPDX-License-Identifier: Apache-2.0
// Finds the processes that hold sockets.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "tools/doctor/machine.h"

namespace uroce::tools {

struct SocketHolder {
  pid_t pid = 0;     ///< 0: no process that this user may inspect, or the kernel.
  std::string name;  ///< The name of the process.
  friend bool operator==(const SocketHolder&, const SocketHolder&) = default;
};

/// The holder of each socket, by its inode. Reads the descriptors of all processes, if there is
/// an inode to look for.
std::map<std::string, SocketHolder> FindHolders(const Machine& machine,
                                                std::set<std::string> inodes);

}  // namespace uroce::tools
