// SPDX-License-Identifier: Apache-2.0
// Finds the file descriptors of a device, on which a sleeping worker waits. DPDK has no function
// for them.
#pragma once

#include <vector>

#include "drivers/dpdk/driver_rules.h"

namespace uroce::drivers {

/// All fds of this process, in rising order, of the kind that such a driver opens: AF_PACKET or
/// AF_XDP sockets, queues of a TAP. They are readable exactly when frames wait, even where the
/// driver offers no interrupt. Empty for the other kinds. Control thread; the function reads /proc.
std::vector<int> FdsOf(WakeUp kind);

/// The fds of that kind that were opened since `before` was taken.
std::vector<int> FdsSince(WakeUp kind, const std::vector<int>& before);

}  // namespace uroce::drivers
