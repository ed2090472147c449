// SPDX-License-Identifier: Apache-2.0
// The kernel's addresses and VLANs on the interface of a port.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "drivers/kernel/sockets.h"
#include "nic/net/address.h"
#include "nic/net/netlink.h"

namespace uroce::nic {

/// The kernel's side of one port, in the daemon's network namespace. Control thread.
class KernelNetwork {
 public:
  /// Reads again what is configured on interface `ifindex`; 0: there is none. From then on new
  /// VLANs do not answer RoCE packets. A VLAN whose MAC differs from `mac`, the port's, is left to
  /// the kernel: its frames are not the port's; kNone leaves all of them.
  enum class Vlans : uint8_t { kServed, kNone };
  void Refresh(int ifindex, const Mac& mac, Vlans vlans = Vlans::kServed);

  /// The addresses of the interface itself come first.
  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }
  /// The interface for the port's traffic of this VLAN; 0 is the port's own. Returns 0 for none.
  int InterfaceOf(uint16_t vlan_id) const;

 private:
  void RefreshVlans(const Mac& mac);
  void Mute(const VlanInterface& vlan);
  void RefreshAddresses();

  Netlink netlink_;
  int ifindex_ = 0;
  std::vector<VlanInterface> vlans_;
  std::vector<VlanInterface> foreign_;        ///< VLANs with other MACs.
  std::map<int, drivers::KernelMute> mutes_;  ///< By ifindex of the VLAN.
  std::vector<InterfaceAddress> addresses_;
};

}  // namespace uroce::nic
