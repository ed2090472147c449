// SPDX-License-Identifier: Apache-2.0
// Checks that a device can do what the user asked. They run before DPDK is asked, because DPDK
// gives its reasons in a log alone.
#pragma once

#include "absl/status/status.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/dpdk_device.h"

namespace uroce::drivers {

/// Looks for what the device stands on: interface, socket, file, PCI device; and for the rights to
/// use it. Removes a socket that nobody listens on any more. Control thread. Errors are one line
/// that names the device, the key, the value and what would be right.
absl::Status CheckDevice(const DeviceArguments& arguments, const DeviceOptions& options);

/// The Ethernet payload that fits the driver's frames, whatever is behind it; 0: no limit.
uint32_t MtuLimit(const DeviceArguments& arguments);

}  // namespace uroce::drivers
