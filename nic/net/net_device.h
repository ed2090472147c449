// SPDX-License-Identifier: Apache-2.0
// The properties of one of the daemon's devices that paths depend on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nic/net/gid_table.h"
#include "nic/net/route.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Implemented by the daemon's NICs, and by tests. Control thread.
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
