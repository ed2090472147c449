// SPDX-License-Identifier: Apache-2.0
// The GIDs of one port: its default GID and its addresses, all RoCE v2. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "nic/net/address.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {

/// One GID. The same address in two VLANs makes two entries.
struct GidEntry {
  Gid gid;
  uint16_t vlan_id = 0;  ///< 0: untagged.
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// Slots with stable indices: a GID keeps its index while it exists, and a freed slot goes to the
/// next new GID (docs/protocol/verbs-semantics.md, section 1). Queue pairs whose source GID is
/// removed keep their path, as with the kernel's RoCE: the index is only read when they are
/// connected.
class GidTable {
 public:
  static constexpr uint32_t kLength = UROCE_MAX_GIDS;

  /// Index 0: fe80::/64 with the EUI-64 of `mac`.
  explicit GidTable(const Mac& mac);
  /// Makes the table hold the default GID of `mac` and `addresses`. Addresses that do not fit are
  /// left out. Returns whether something changed.
  bool Update(const Mac& mac, const std::vector<InterfaceAddress>& addresses);

  /// The GID at `index`, unless the slot is empty or does not exist.
  std::optional<GidEntry> At(uint32_t index) const;
  std::optional<uint32_t> Find(const GidEntry& entry) const;
  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }

 private:
  bool Keep(const std::vector<InterfaceAddress>& addresses);
  bool Insert(const GidEntry& entry);

  std::array<std::optional<GidEntry>, kLength> slots_;
  std::vector<InterfaceAddress> addresses_;
};

}  // namespace uroce::nic
