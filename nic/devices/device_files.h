// SPDX-License-Identifier: Apache-2.0
// The contents of the files, counters included, that the kernel has for an RDMA device in
// /sys/class/infiniband. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/congestion/settings.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Values by the names that `uroce stat` shows.
using CounterValues = std::map<std::string, uint64_t>;

/// The counters that the kernel has for a port, by path below /sys/class/infiniband/<name>/ports/1.
/// `counters/` has those of linux/drivers/infiniband/core/sysfs.c, with the units of IBTA volume 1,
/// section 16.1.3.5: port_rcv_data and port_xmit_data count words of 4 bytes. What cannot happen on
/// a port without InfiniBand's link layer is 0; what the daemon does not know, such as
/// port_xmit_wait, is missing. `hw_counters/` has all other counters, those of mlx5 under mlx5's
/// names.
std::map<std::string, uint64_t> CounterFiles(const CounterValues& values);

/// A device in the form that its files describe.
struct DescribedDevice {
  uroce_device_info device{};
  uroce_port_info port{};
  std::vector<uroce_gid_entry> gids;        ///< The whole table, in order.
  std::vector<std::string> gid_interfaces;  ///< For each GID: the kernel's interface, or "".
  std::string interface;                    ///< The kernel's interface, or "".
  uint32_t cpus = 1;
  congestion::Settings congestion;
  std::array<congestion::Profile, congestion::kPriorities> profiles{};
};

/// Returns file contents by path under /sys/class/infiniband/<name>. As in the kernel, an empty
/// slot of the GID table has a zero GID and no type or interface. The files in ecn/roce_np and
/// ecn/roce_rp are those that mlx5 has below its network interface. The other formats are those of
/// linux/drivers/infiniband/core's sysfs of Linux 6.1.
std::map<std::string, std::string> DeviceFiles(const DescribedDevice& described);

}  // namespace uroce::nic
