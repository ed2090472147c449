// SPDX-License-Identifier: Apache-2.0
#include "nic/net/net_device.h"

#include <algorithm>

namespace uroce::nic {
namespace {

GidEntry EntryOf(const InterfaceAddress& address) { return {address.gid, address.vlan_id}; }

}  // namespace

GidTable::GidTable(const Mac& mac) { slots_[0] = GidEntry{DefaultGid(mac), 0}; }

bool GidTable::Update(const Mac& mac, const std::vector<InterfaceAddress>& addresses) {
  const GidEntry default_entry{DefaultGid(mac), 0};
  bool changed = slots_[0] != default_entry;
  slots_[0] = default_entry;
  changed |= Keep(addresses);
  for (const InterfaceAddress& address : addresses) changed |= Insert(EntryOf(address));
  addresses_ = addresses;
  return changed;
}

std::optional<GidEntry> GidTable::At(uint32_t index) const {
  return index < kLength ? slots_[index] : std::nullopt;
}

std::optional<uint32_t> GidTable::Find(const GidEntry& entry) const {
  for (uint32_t i = 0; i < kLength; ++i) {
    if (slots_[i] == entry) return i;
  }
  return std::nullopt;
}

// Index 0 always has the default GID; an address equal to it is not entered twice.
bool GidTable::Keep(const std::vector<InterfaceAddress>& addresses) {
  bool changed = false;
  for (uint32_t i = 1; i < kLength; ++i) {
    if (!slots_[i]) continue;
    const bool wanted = slots_[i] != slots_[0] &&
                        std::any_of(addresses.begin(), addresses.end(), [&](const auto& address) {
                          return EntryOf(address) == *slots_[i];
                        });
    if (wanted) continue;
    slots_[i].reset();
    changed = true;
  }
  return changed;
}

// A link-local address equal to the default GID is in the table already.
bool GidTable::Insert(const GidEntry& entry) {
  if (Find(entry)) return false;
  const auto slot = std::find(slots_.begin(), slots_.end(), std::nullopt);
  if (slot == slots_.end()) return false;
  *slot = entry;
  return true;
}

}  // namespace uroce::nic
