// SPDX-License-Identifier: Apache-2.0
#include "nic/net/gid_table.h"

#include <algorithm>

namespace uroce::nic {

GidTable::GidTable(const Mac& mac) { slots_[0] = DefaultGid(mac); }

bool GidTable::Update(const std::vector<InterfaceAddress>& addresses) {
  bool changed = Keep(addresses);
  for (const InterfaceAddress& address : addresses) changed |= Insert(address.gid);
  addresses_ = addresses;
  return changed;
}

std::optional<Gid> GidTable::At(uint32_t index) const {
  return index < kLength ? slots_[index] : std::nullopt;
}

std::optional<uint32_t> GidTable::Find(const Gid& gid) const {
  for (uint32_t i = 0; i < kLength; ++i) {
    if (slots_[i] == gid) return i;
  }
  return std::nullopt;
}

bool GidTable::Keep(const std::vector<InterfaceAddress>& addresses) {
  bool changed = false;
  for (uint32_t i = 1; i < kLength; ++i) {  // Index 0 stays for ever.
    if (!slots_[i]) continue;
    const bool wanted = std::any_of(addresses.begin(), addresses.end(),
                                    [&](const auto& address) { return address.gid == *slots_[i]; });
    if (wanted) continue;
    slots_[i].reset();
    changed = true;
  }
  return changed;
}

// A link-local address equal to the default GID is there already, and not added twice.
bool GidTable::Insert(const Gid& gid) {
  if (Find(gid)) return false;
  const auto slot = std::find(slots_.begin(), slots_.end(), std::nullopt);
  if (slot == slots_.end()) return false;
  *slot = gid;
  return true;
}

}  // namespace uroce::nic
