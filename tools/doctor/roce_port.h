// SPDX-License-Identifier: Apache-2.0
// Finds others in this network namespace that receive on RoCEv2's UDP port, 4791.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/socket_holders.h"

namespace uroce::tools {

struct RocePortFacts {
  std::vector<SocketHolder> holders;      ///< One per process.
  bool all_processes_seen = false;        ///< Root looked, so an unseen holder is the kernel.
  bool rxe_loaded = false;                ///< The module rdma_rxe is loaded.
  std::vector<std::string> rdma_devices;  ///< /sys/class/infiniband
};

/// Reads /proc/net/udp, /proc/net/udp6 and the descriptors of all processes.
RocePortFacts ReadRocePort(const Machine& machine);
/// `beside_kernel`: the daemon has a port on a kernel interface, so that both get its packets.
/// Other holders of the port are a problem then; otherwise they are a note.
Findings CheckRocePort(const RocePortFacts& facts, bool beside_kernel);

}  // namespace uroce::tools
