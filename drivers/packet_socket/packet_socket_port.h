// SPDX-License-Identifier: Apache-2.0
// A kernel interface as a port, by packet sockets: packets of a flow that leave together are one
// superframe for the kernel, and superframes that arrive are taken apart.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/dpdk_device.h"
#include "drivers/port.h"

struct rte_mempool;

namespace uroce::drivers {

inline constexpr char kPacketSocketDriver[] = "net_iface";

/// Opens the interface of `arguments`, with a socket for each queue. `takes_all_frames`: not only
/// RoCE frames. Errors are one line that names the interface. Control thread.
absl::StatusOr<std::unique_ptr<Port>> OpenPacketSocketPort(const DeviceArguments& arguments,
                                                           const DeviceOptions& options,
                                                           bool takes_all_frames,
                                                           rte_mempool* pool);

}  // namespace uroce::drivers
