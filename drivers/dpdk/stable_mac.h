// SPDX-License-Identifier: Apache-2.0
// Makes the MAC of a port whose device has none.
#pragma once

#include "drivers/dpdk/device_arguments.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

/// A locally administered unicast address that is the same at each start, and another one for
/// another device, socket, end of it or interface, network namespace or machine.
Mac StableMac(const DeviceArguments& arguments);

}  // namespace uroce::drivers
