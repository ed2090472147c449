// SPDX-License-Identifier: Apache-2.0
// The files of one device, as the kernel has them for an RDMA device in
// /sys/class/infiniband. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/congestion/settings.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// A device as its files describe it.
struct DescribedDevice {
  uroce_device_info device{};
  uroce_port_info port{};
  std::vector<uroce_gid_entry> gids;        ///< The whole table, in order.
  std::vector<std::string> gid_interfaces;  ///< Of each GID: the kernel's interface, or "".
  std::string interface;                    ///< The kernel's, or "".
  uint32_t cpus = 1;
  congestion::Settings congestion;
};

/// Texts by path under /sys/class/infiniband/<name>. An empty slot of the GID table has a zero GID,
/// and neither type nor interface, as in the kernel. ecn/roce_np and ecn/roce_rp are mlx5's, which
/// has them below the kernel interface. Formats: those of
/// linux/drivers/infiniband/core's sysfs of Linux 6.1.
std::map<std::string, std::string> DeviceFiles(const DescribedDevice& described);

}  // namespace uroce::nic
