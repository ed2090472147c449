// SPDX-License-Identifier: Apache-2.0
// Who else in this network namespace receives on RoCEv2's UDP port, 4791.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

/// A socket of UDP port 4791.
struct RocePortHolder {
  pid_t pid = 0;     ///< 0: no process that we may look into, so probably the kernel.
  std::string name;  ///< Of the process.
};

struct RocePortFacts {
  std::vector<RocePortHolder> holders;    ///< One per process.
  bool all_processes_seen = false;        ///< Root looked: who is not seen is the kernel.
  bool rxe_loaded = false;                ///< The module rdma_rxe.
  std::vector<std::string> rdma_devices;  ///< /sys/class/infiniband
};

/// From /proc/net/udp, /proc/net/udp6 and the descriptors of all processes.
RocePortFacts ReadRocePort(const Machine& machine);
/// `beside_kernel`: the daemon has a port on a kernel interface, so that both get its packets.
/// Others on the port are a problem then, and a note else.
Findings CheckRocePort(const RocePortFacts& facts, bool beside_kernel);

}  // namespace uroce::tools
