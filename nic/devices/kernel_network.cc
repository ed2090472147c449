// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/kernel_network.h"

#include <net/if.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/base/log.h"
#include "nic/net/kernel_resources.h"
#include "pipeline/port/port.h"

namespace uroce::nic {

void KernelNetwork::Refresh(int ifindex, const Mac& mac, Vlans vlans) {
  ifindex_ = ifindex;
  if (vlans == Vlans::kServed) RefreshVlans(mac);
  RefreshAddresses();
  if (vlans == Vlans::kServed) RefreshDrop();
}

int KernelNetwork::InterfaceOf(uint16_t vlan_id) const {
  if (vlan_id == 0) return ifindex_;
  for (const VlanInterface& vlan : vlans_) {
    if (vlan.vlan_id == vlan_id) return vlan.ifindex;
  }
  return 0;
}

void KernelNetwork::RefreshVlans(const Mac& mac) {
  std::optional<std::vector<VlanInterface>> listed = std::vector<VlanInterface>();
  if (ifindex_ != 0) listed = netlink_.VlansAbove(ifindex_);
  if (!listed) return;  // The known VLANs stay until the next news.
  vlans_ = *std::move(listed);
  const auto ours = std::stable_partition(vlans_.begin(), vlans_.end(),
                                          [&](const auto& vlan) { return vlan.mac == mac; });
  const std::vector<VlanInterface> foreign(ours, vlans_.end());
  vlans_.erase(ours, vlans_.end());
  for (const VlanInterface& vlan : foreign) {
    if (std::find(foreign_.begin(), foreign_.end(), vlan) != foreign_.end()) continue;
    LogWarning("{} has its own MAC, {}: its addresses are not served", vlan.name,
               FormatMac(vlan.mac));
  }
  foreign_ = foreign;
  std::erase_if(mutes_, [this](const auto& mute) {
    return mute.first != ifindex_ &&
           std::none_of(vlans_.begin(), vlans_.end(),
                        [&](const auto& vlan) { return vlan.ifindex == mute.first; });
  });
  char name[IF_NAMESIZE];
  if (if_indextoname(ifindex_, name) != nullptr) Mute(ifindex_, name);
  for (const VlanInterface& vlan : vlans_) Mute(vlan.ifindex, vlan.name);
}

// Too late to refuse the port: the log says which packets others get.
void KernelNetwork::Mute(int ifindex, const std::string& name) {
  if (mutes_.contains(ifindex)) return;
  absl::StatusOr<drivers::KernelMute> mute = drivers::KernelMute::Open(name);
  if (!mute.ok()) {
    LogError("others receive or answer RoCE packets too: {}", std::string(mute.status().message()));
    return;
  }
  if (mute->is_shared()) {
    LogWarning(
        "another program has UDP port 4791 of {}: it receives or answers RoCE packets too "
        "(uroce doctor names it)",
        name);
  }
  mutes_.emplace(ifindex, *std::move(mute));
}

// GID indices follow this order while slots are free: the interface's own addresses get the same
// indices as without VLANs.
void KernelNetwork::RefreshAddresses() {
  std::optional<std::vector<LinkAddress>> listed = std::vector<LinkAddress>();
  if (ifindex_ != 0) listed = netlink_.Addresses();
  if (!listed) return;
  addresses_.clear();
  for (const LinkAddress& address : *listed) {
    const auto vlan = std::find_if(vlans_.begin(), vlans_.end(), [&](const VlanInterface& one) {
      return one.ifindex == address.ifindex;
    });
    if (vlan == vlans_.end() && address.ifindex != ifindex_) continue;
    const uint16_t vlan_id = vlan == vlans_.end() ? 0 : vlan->vlan_id;
    addresses_.push_back({address.address, address.prefix_bits, vlan_id});
  }
  std::stable_partition(addresses_.begin(), addresses_.end(),
                        [](const InterfaceAddress& address) { return address.vlan_id == 0; });
}

// A program that shares the UDP port goes on receiving.
void KernelNetwork::RefreshDrop() {
  const auto mute = mutes_.find(ifindex_);
  if (mute == mutes_.end() || mute->second.is_shared()) return drop_.Clear();
  std::vector<Gid> own;
  for (const InterfaceAddress& address : addresses_) {
    if (address.vlan_id == 0) own.push_back(address.gid);
  }
  drop_.Set(ifindex_, own);
}

absl::Status KernelNetwork::OpenExceptionTap(const std::string& name,
                                             const drivers::PortInfo& port) {
  absl::StatusOr<Fd> tap = OpenTap(name, port.mac, port.mtu_bytes);
  if (!tap.ok()) return tap.status();
  exception_tap_ = *std::move(tap);
  ShowCarrier(port.link_up);
  return absl::OkStatus();
}

absl::Status KernelNetwork::OpenAddressTap(const std::string& name, const drivers::PortInfo& port,
                                           const std::vector<InterfaceAddress>& addresses) {
  absl::StatusOr<Fd> tap = nic::OpenAddressTap(name, port.mac, port.mtu_bytes, addresses);
  if (!tap.ok()) return tap.status();
  address_tap_ = *std::move(tap);
  return absl::OkStatus();
}

void KernelNetwork::ShowCarrier(bool has_carrier) {
  if (exception_tap_) SetTapCarrier(exception_tap_, has_carrier);
}

absl::Status CheckVlans(const KernelNetwork& kernel, const drivers::PortInfo& port,
                        const std::vector<InterfaceAddress>& addresses) {
  if (port.interface.empty()) return absl::OkStatus();
  for (const InterfaceAddress& address : addresses) {
    if (kernel.InterfaceOf(address.vlan_id) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ip \"", FormatInterfaceAddress(address), "\": ", port.interface,
                     " has no such VLAN; add it by: ip link add link ", port.interface, " name ",
                     port.interface, ".", address.vlan_id, " type vlan id ", address.vlan_id));
  }
  return absl::OkStatus();
}

absl::Status CheckNoAddresses(const drivers::PortInfo& port) {
  if (port.interface.empty()) return absl::OkStatus();
  KernelNetwork kernel;
  kernel.Refresh(port.ifindex, port.mac);
  for (const InterfaceAddress& address : kernel.addresses()) {
    if (IsLinkLocal(address.gid)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "host=uroce: the kernel has the address ", FormatInterfaceAddress(address), " on ",
        port.interface, " and would answer too; take it away by: ip addr flush dev ",
        port.interface, " scope global"));
  }
  return absl::OkStatus();
}

}  // namespace uroce::nic
