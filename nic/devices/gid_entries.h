// SPDX-License-Identifier: Apache-2.0
// The GID table of a device as programs are told.
#pragma once

#include <vector>

#include "nic/devices/nic_device.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Every slot, empty ones too.
std::vector<uroce_gid_entry> GidEntries(const NicDevice& device);

}  // namespace uroce::nic
