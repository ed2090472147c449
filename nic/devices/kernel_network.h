// SPDX-License-Identifier: Apache-2.0
// The kernel's side of a port: its addresses and VLANs on the port's interface, and the TAPs by
// which it sees a port that has none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "drivers/kernel/ingress_drop.h"
#include "drivers/kernel/sockets.h"
#include "nic/net/address.h"
#include "nic/net/netlink.h"
#include "pipeline/os/fd.h"

namespace uroce::drivers {
struct PortInfo;
}

namespace uroce::nic {

/// The kernel's side of one port, in the daemon's network namespace. Control thread.
class KernelNetwork {
 public:
  /// Reads again what is configured on interface `ifindex`; 0: there is none. From then on it and
  /// its VLANs do not answer RoCE packets, and the kernel drops those of the interface's addresses
  /// early where it can (IngressDrop). A VLAN whose MAC differs from `mac`, the port's, is left to
  /// the kernel: its frames are not the port's; kNone leaves all of them, and drops nothing.
  enum class Vlans : uint8_t { kServed, kNone };
  void Refresh(int ifindex, const Mac& mac, Vlans vlans = Vlans::kServed);

  /// The kernel and its programs may have the RoCE packets again: the port has gone.
  void Release() {
    mutes_.clear();
    drop_.Clear();
  }

  /// The addresses of the interface itself come first.
  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }
  /// The interface for the port's traffic of this VLAN; 0 is the port's own. Returns 0 for none.
  int InterfaceOf(uint16_t vlan_id) const;
  /// Whether the kernel drops RoCE packets before its IP.
  bool drops_early() const { return drop_.is_active(); }

  // ---- TAPs ----
  /// Opens the TAP `name` of the port's exception path. Errors: one line that begins with the name.
  absl::Status OpenExceptionTap(const std::string& name, const drivers::PortInfo& port);
  /// Adds the port's addresses to the kernel by a TAP, until the object is destroyed. Errors: one
  /// line that begins with the name.
  absl::Status OpenAddressTap(const std::string& name, const drivers::PortInfo& port,
                              const std::vector<InterfaceAddress>& addresses);
  bool has_exception_tap() const { return static_cast<bool>(exception_tap_); }
  /// The fd of the exception path's TAP, or -1.
  int exception_tap() const { return exception_tap_.get(); }
  /// Shows the kernel at the exception path's TAP, if there is one, whether the port has a link.
  void ShowCarrier(bool has_carrier);

 private:
  void RefreshVlans(const Mac& mac);
  void Mute(int ifindex, const std::string& name);
  void RefreshAddresses();
  void RefreshDrop();

  Netlink netlink_;
  int ifindex_ = 0;
  std::vector<VlanInterface> vlans_;
  std::vector<VlanInterface> foreign_;        ///< VLANs with other MACs.
  std::map<int, drivers::KernelMute> mutes_;  ///< By ifindex: of the interface and of VLANs.
  drivers::IngressDrop drop_;
  std::vector<InterfaceAddress> addresses_;
  Fd exception_tap_;
  Fd address_tap_;  ///< Its interface has the port's addresses.
};

/// Checks that every VLAN of these addresses has an interface above `port`'s. Errors: one line with
/// the command that adds it.
absl::Status CheckVlans(const KernelNetwork& kernel, const drivers::PortInfo& port,
                        const std::vector<InterfaceAddress>& addresses);
/// Checks that the kernel has no addresses on the port's interface, which the daemon serves itself.
/// Errors: one line with the command that takes them away.
absl::Status CheckNoAddresses(const drivers::PortInfo& port);

}  // namespace uroce::nic
