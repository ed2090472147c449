// SPDX-License-Identifier: Apache-2.0
// Addresses of a kernel interface.
#pragma once

#include <string>
#include <vector>

#include "nic/net/address.h"

namespace uroce::nic {

/// IPv4 and IPv6 addresses of `interface` in the daemon's network namespace, as the kernel lists
/// them. Empty when there is no such interface.
std::vector<InterfaceAddress> InterfaceAddresses(const std::string& interface);

}  // namespace uroce::nic
