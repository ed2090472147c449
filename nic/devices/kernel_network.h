// SPDX-License-Identifier: Apache-2.0
// What the kernel has above the interface of a port: its addresses, and its VLANs with theirs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "drivers/dpdk/kernel_mute.h"
#include "nic/net/address.h"
#include "nic/net/netlink.h"

namespace uroce::nic {

/// The kernel's side of one port, in the daemon's network namespace. Control thread.
class KernelNetwork {
 public:
  /// Looks again at what is above interface `ifindex`; 0: there is none. VLANs that came are kept
  /// from answering RoCE packets from then on. A VLAN with another MAC than `mac`, the port's, is
  /// left to the kernel: frames for it are not the port's.
  void Refresh(int ifindex, const Mac& mac);

  /// Those of the interface itself come first.
  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }
  /// The interface that has the port's traffic of this VLAN, itself for 0; 0: there is none.
  int InterfaceOf(uint16_t vlan_id) const;

 private:
  void RefreshVlans(const Mac& mac);
  void Mute(const VlanInterface& vlan);
  void RefreshAddresses();

  Netlink netlink_;
  int ifindex_ = 0;
  std::vector<VlanInterface> vlans_;
  std::vector<VlanInterface> foreign_;        ///< With MACs of their own.
  std::map<int, drivers::KernelMute> mutes_;  ///< By ifindex of the VLAN.
  std::vector<InterfaceAddress> addresses_;
};

}  // namespace uroce::nic
