// SPDX-License-Identifier: Apache-2.0
// A port that DPDK drives: a NIC of its own, or one of its virtual devices.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drivers/dpdk/dpdk_device.h"
#include "drivers/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// Opens the device that `device` names (device_arguments.h), frames in mbufs of `pool`. On a
/// kernel interface MAC, MTU and link are the kernel's, and the kernel is kept from answering RoCE
/// packets. After InitEal; control thread. Errors are one line that names the device and the
/// option.
absl::StatusOr<std::unique_ptr<Port>> OpenDpdkPort(const std::string& device,
                                                   const DeviceOptions& options, rte_mempool* pool);

}  // namespace uroce::drivers
