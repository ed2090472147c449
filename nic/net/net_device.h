// SPDX-License-Identifier: Apache-2.0
// The facts about one of the daemon's devices on which paths depend.
#pragma once

#include <cstdint>
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
  /// Among the daemon's.
  virtual uint32_t index() const = 0;
  virtual const Mac& mac() const = 0;
  virtual bool link_up() const = 0;
  /// Which in-process wire it is an end of, or -1. Exactly two devices are the ends of each.
  virtual int wire() const = 0;
  /// Whether it is at one of the daemon's switches.
  virtual bool at_switch() const { return false; }
  /// Whether the daemon itself is the port's host on its Ethernet: where there is no kernel
  /// interface, or where the settings say so.
  virtual bool is_host() const = 0;
  /// The kernel interface whose routes and neighbours are those of this VLAN; 0: there is none.
  virtual int InterfaceOf(uint16_t vlan_id) const = 0;
  virtual const GidTable& gids() const = 0;
  /// Of a host, beyond the prefixes of its addresses.
  virtual const std::vector<Route>& routes() const = 0;
};

/// All of the daemon, by their indices.
using NetDevices = std::vector<const NetDevice*>;

}  // namespace uroce::nic
