// SPDX-License-Identifier: Apache-2.0
// A NIC as programs see it: its limits (ibv_query_device) and its GID table.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct Limits;
class NicDevice;

/// The most queue pairs in one group of a device: a packet to the group is copied for each.
inline constexpr uint32_t kMaxGroupMembers = 64;

uroce_device_info DeviceInfo(const NicDevice& device, const Limits& limits);
/// Returns every slot of the GID table, including empty ones.
std::vector<uroce_gid_entry> GidEntries(const NicDevice& device);

}  // namespace uroce::nic
