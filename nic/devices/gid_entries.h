// SPDX-License-Identifier: Apache-2.0
// The GID table of a device in the form that programs get.
#pragma once

#include <vector>

#include "nic/devices/nic_device.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Returns every slot, including empty ones.
std::vector<uroce_gid_entry> GidEntries(const NicDevice& device);

}  // namespace uroce::nic
