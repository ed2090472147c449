// SPDX-License-Identifier: Apache-2.0
// Finds addresses of this network namespace that several NICs of uroced serve.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/socket_holders.h"

namespace uroce::tools {

/// Addresses of an interface that the same NICs serve.
struct SharedAddresses {
  std::string interface;
  std::vector<std::string> addresses;
  std::vector<SocketHolder> holders;  ///< One for each NIC: a daemon may stand there twice.
};

/// Reads the signs that daemons put up (nic/net/address_signs.h), from /proc/net/unix.
std::vector<SharedAddresses> ReadSharedAddresses(const Machine& machine);
/// `daemon`: the process that is examined, or 0. It is not the one to end.
Findings CheckSharedAddresses(const std::vector<SharedAddresses>& shared, pid_t daemon);

}  // namespace uroce::tools
