// SPDX-License-Identifier: Apache-2.0
// Checks that a device can do what the user asked. They run before DPDK is called, because DPDK
// gives its reasons only in a log.
#pragma once

#include "absl/status/status.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/dpdk_device.h"

namespace uroce::drivers {

/// Checks that what the device needs exists (interface, socket, file, PCI device), with the right
/// to use it. Removes a socket that nobody listens on any more. Control thread. Errors are one line
/// that names the device, the key, the value and what would be right.
absl::Status CheckDevice(const DeviceArguments& arguments, const DeviceOptions& options);

/// The largest Ethernet payload that the driver's frames hold, whatever device is behind the
/// driver; 0: no limit.
uint32_t MtuLimit(const DeviceArguments& arguments);

}  // namespace uroce::drivers
