// SPDX-License-Identifier: Apache-2.0
// The counters that the kernel has for a port in /sys/class/infiniband/<name>/ports/1. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace uroce::nic {

/// Values by the names that `uroce stat` shows.
using CounterValues = std::map<std::string, uint64_t>;

/// Values by path below ports/1. `counters/` has those of linux/drivers/infiniband/core/sysfs.c,
/// with the units of IBTA volume 1, section 16.1.3.5: port_rcv_data and port_xmit_data count words
/// of 4 bytes. What cannot happen on a port without InfiniBand's link layer is 0; what the daemon
/// does not know, such as port_xmit_wait, is missing. `hw_counters/` has all other counters, those
/// of mlx5 under mlx5's names.
std::map<std::string, uint64_t> CounterFiles(const CounterValues& values);

}  // namespace uroce::nic
