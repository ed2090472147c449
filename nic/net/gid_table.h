// SPDX-License-Identifier: Apache-2.0
// The GIDs of one port: its default GID and its addresses, all RoCE v2. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "nic/net/address.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::nic {

/// Slots with stable indices: a GID keeps its index for as long as it is there, and a freed slot
/// is taken by the next newcomer (protocol/verbs-semantics.md, section 1).
class GidTable {
 public:
  static constexpr uint32_t kLength = UROCE_MAX_GIDS;

  /// Index 0: fe80::/64 with the EUI-64 of `mac`.
  explicit GidTable(const Mac& mac);
  /// Makes the table hold the default GID and `addresses`. What does not fit is left out. True:
  /// something changed.
  bool Update(const std::vector<InterfaceAddress>& addresses);

  /// The GID at `index`, unless the slot is empty or does not exist.
  std::optional<Gid> At(uint32_t index) const;
  std::optional<uint32_t> Find(const Gid& gid) const;
  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }

 private:
  bool Keep(const std::vector<InterfaceAddress>& addresses);
  bool Insert(const Gid& gid);

  std::array<std::optional<Gid>, kLength> slots_;
  std::vector<InterfaceAddress> addresses_;
};

}  // namespace uroce::nic
