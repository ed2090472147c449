// SPDX-License-Identifier: Apache-2.0
// Makes the MAC of a port whose device has none.
#pragma once

#include "drivers/dpdk/device_arguments.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

/// A locally administered unicast address that is the same at each start. It differs between
/// devices, sockets, the two ends of a socket, interfaces, network namespaces and machines.
Mac StableMac(const DeviceArguments& arguments);

}  // namespace uroce::drivers
