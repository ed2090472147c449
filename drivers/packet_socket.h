// SPDX-License-Identifier: Apache-2.0
// The socket behind a net_af_packet device: DPDK keeps it to itself, a sleeping worker wants it.
#pragma once

#include <vector>

namespace uroce::drivers {

/// AF_PACKET sockets of this process that are bound to the interface `ifindex`, in rising order.
/// One that net_af_packet made is readable exactly when frames wait in its ring, so that a worker
/// can sleep on it: the driver itself offers no interrupt. Control thread; looks through /proc.
std::vector<int> PacketSocketsOn(int ifindex);

}  // namespace uroce::drivers
