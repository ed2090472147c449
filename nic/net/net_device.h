// SPDX-License-Identifier: Apache-2.0
// What paths need to know about a device of the daemon: its addresses (the GID table), its link,
// its place in the network. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nic/net/address.h"
#include "nic/net/route.h"
#include "pipeline/base/types.h"
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

/// The properties of one device that paths depend on. Implemented by the daemon's NICs, and by
/// tests. Control thread.
class NetDevice {
 public:
  virtual ~NetDevice() = default;
  virtual const std::string& name() const = 0;
  /// The index among the daemon's devices.
  virtual uint32_t index() const = 0;
  virtual const Mac& mac() const = 0;
  virtual bool link_up() const = 0;
  /// The in-process wire of which the device is an end, or -1. Each wire has exactly two ends.
  virtual int wire() const = 0;
  /// Whether the device is attached to one of the daemon's switches.
  virtual bool at_switch() const { return false; }
  /// Whether switches may mark packets of this traffic class instead of dropping them.
  virtual bool IsEcnCapable(uint8_t /*traffic_class*/) const { return false; }
  /// Whether the daemon itself is the port's host on its Ethernet: if there is no kernel interface,
  /// or if the settings say so.
  virtual bool is_host() const = 0;
  /// The MAC that stands for every peer, if the kernel finds the way to each.
  virtual std::optional<Mac> peer_mac() const { return std::nullopt; }
  /// The kernel interface with the routes and neighbours of this VLAN; 0 if there is none.
  virtual int InterfaceOf(uint16_t vlan_id) const = 0;
  virtual const GidTable& gids() const = 0;
  /// The routes of a host, beside the prefixes of its addresses.
  virtual const std::vector<Route>& routes() const = 0;
};

/// All devices of the daemon, by their indices.
using NetDevices = std::vector<const NetDevice*>;

}  // namespace uroce::nic
