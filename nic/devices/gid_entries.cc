// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/gid_entries.h"

#include <infiniband/verbs.h>

#include <algorithm>

namespace uroce::nic {

std::vector<uroce_gid_entry> GidEntries(const NicDevice& device) {
  std::vector<uroce_gid_entry> entries(GidTable::kLength);
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    uroce_gid_entry& entry = entries[index];
    entry.index = index;
    const std::optional<GidEntry> gid = device.gids().At(index);
    if (!gid) continue;
    std::copy(gid->gid.bytes.begin(), gid->gid.bytes.end(), entry.gid);
    entry.valid = 1;
    entry.type = IBV_GID_TYPE_ROCE_V2;
    entry.ifindex = static_cast<uint32_t>(device.InterfaceOf(gid->vlan_id));
  }
  return entries;
}

}  // namespace uroce::nic
