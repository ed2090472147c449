// SPDX-License-Identifier: Apache-2.0
// A port that DPDK drives: a physical NIC, or one of DPDK's virtual devices.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drivers/dpdk/dpdk_device.h"
#include "pipeline/port/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// Opens the device that `device` names (device_arguments.h), with frames in mbufs of `pool`. On a
/// kernel interface the port has the kernel's MAC, MTU and link state, and the kernel is kept from
/// answering RoCE packets. Call it after InitEal, on the control thread. Errors are one line that
/// names the device and the option.
absl::StatusOr<std::unique_ptr<Port>> OpenDpdkPort(const std::string& device,
                                                   const DeviceOptions& options, rte_mempool* pool);

}  // namespace uroce::drivers
