// SPDX-License-Identifier: Apache-2.0
// The file descriptors of a device, on which a sleeping worker waits. DPDK has no function
// for them.
#pragma once

#include <vector>

#include "drivers/dpdk/driver_rules.h"

namespace uroce::drivers {

/// All fds of this process, in rising order, of the kind that such a driver makes: AF_PACKET or
/// AF_XDP sockets, queues of a TAP. They are readable exactly when frames wait, where the driver
/// itself offers no interrupt. None for the other kinds. Control thread; looks through /proc.
std::vector<int> FdsOf(WakeUp kind);

/// Those that came into being since `before` was taken.
std::vector<int> FdsSince(WakeUp kind, const std::vector<int>& before);

}  // namespace uroce::drivers
