// SPDX-License-Identifier: Apache-2.0
// A port without any privilege: RoCE packets by UDP sockets, whose kernel finds the way, resolves
// neighbours and adds Ethernet and IP. Frames have such headers only inside the daemon.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/dpdk_device.h"
#include "pipeline/port/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// Opens sockets for each queue, at the interface or at the addresses of `arguments`. Errors are
/// one line that names them. Control thread.
absl::StatusOr<std::unique_ptr<Port>> OpenUdpPort(const DeviceArguments& arguments,
                                                  const DeviceOptions& options, rte_mempool* pool);

}  // namespace uroce::drivers
