// SPDX-License-Identifier: Apache-2.0
#include "nic/paths/source_choice.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/cm/bindings.h"
#include "nic/net/address.h"
#include "nic/net/route.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kLinkLocalBits = 64;

/// All GIDs of a device with their prefixes, including the default GID, which no setting names.
std::vector<InterfaceAddress> AddressesOf(const NetDevice& device) {
  std::vector<InterfaceAddress> addresses = device.gids().addresses();
  const std::optional<GidEntry> link_local = device.gids().At(0);
  if (link_local) {
    addresses.push_back({link_local->gid, kLinkLocalBits, link_local->vlan_id});
  }
  return addresses;
}

/// Whether the device has its own routes, and not the kernel's.
bool HasOwnRoutes(const NetDevice& device) { return device.is_host() || device.wire() >= 0; }

/// Whether a wire or the switches of the daemon join them.
bool AreJoined(const NetDevice& a, const NetDevice& b) {
  return (a.wire() >= 0 && a.wire() == b.wire()) || (a.at_switch() && b.at_switch());
}

bool SharesFamily(const Gid& a, const Gid& b) { return a.is_ipv4() == b.is_ipv4(); }

}  // namespace

std::optional<SourceAddress> SourceChoice::FindOwner(const Gid& address, int ifindex) const {
  for (const NetDevice* device : devices_) {
    for (const InterfaceAddress& each : AddressesOf(*device)) {
      if (each.gid != address) continue;
      if (ifindex != 0 && device->InterfaceOf(each.vlan_id) != ifindex) continue;
      return SourceAddress{device, each.vlan_id, address};
    }
  }
  return std::nullopt;
}

absl::StatusOr<SourceAddress> SourceChoice::Choose(const Gid& destination, int ifindex,
                                                   std::span<const NetDevice* const> used) {
  if (cm::IsOfHost(destination)) return OfHost(destination);
  if (const auto owner = FindOwner(destination, ifindex)) {
    const std::optional<SourceAddress> other = OtherEnd(*owner);
    const auto is_used = [used](const NetDevice* device) {
      return std::ranges::find(used, device) != used.end();
    };
    return !other || (is_used(owner->device) && !is_used(other->device)) ? *owner : *other;
  }
  if (ifindex == 0) {
    if (const auto source = OnLinkOfOwnHost(destination)) return *source;
  }
  absl::StatusOr<SourceAddress> source = AskKernel(destination, ifindex);
  if (source.ok() || ifindex != 0) return source;  // A port that is its own host has no ifindex.
  if (const auto by_route = ByRouteOfOwnHost(destination)) return *by_route;
  return source;
}

// A device reaches its own addresses even without a link.
absl::StatusOr<SourceAddress> SourceChoice::OfHost(const Gid& destination) const {
  std::optional<SourceAddress> without_link;
  for (const NetDevice* device : devices_) {
    for (const InterfaceAddress& each : AddressesOf(*device)) {
      if (!SharesFamily(each.gid, destination)) continue;
      const SourceAddress source{device, each.vlan_id, each.gid};
      if (device->link_up()) return source;
      if (!without_link) without_link = source;
    }
  }
  if (without_link) return *without_link;
  return absl::NotFoundError(
      absl::StrCat("no NIC has an address of the family of ", FormatAddress(destination)));
}

std::optional<SourceAddress> SourceChoice::OtherEnd(const SourceAddress& owner) const {
  for (const NetDevice* device : devices_) {
    if (device == owner.device || !AreJoined(*device, *owner.device)) continue;
    for (const InterfaceAddress& each : AddressesOf(*device)) {
      if (each.vlan_id != owner.vlan_id || !SharesFamily(each.gid, owner.address)) continue;
      if (OnLink(each, owner.address)) return SourceAddress{device, each.vlan_id, each.gid};
    }
  }
  return std::nullopt;
}

// A group is on every link: the first address of its family is used.
std::optional<SourceAddress> SourceChoice::OnLinkOfOwnHost(const Gid& destination) const {
  for (const NetDevice* device : devices_) {
    if (!HasOwnRoutes(*device)) continue;
    for (const InterfaceAddress& each : AddressesOf(*device)) {
      if (!SharesFamily(each.gid, destination)) continue;
      if (!OnLink(each, destination) && !IsMulticast(destination)) continue;
      return SourceAddress{device, each.vlan_id, each.gid};
    }
  }
  return std::nullopt;
}

std::optional<SourceAddress> SourceChoice::ByRouteOfOwnHost(const Gid& destination) const {
  for (const NetDevice* device : devices_) {
    if (!device->is_host()) continue;
    const std::vector<InterfaceAddress>& addresses = device->gids().addresses();
    for (const InterfaceAddress& each : addresses) {
      if (!SharesFamily(each.gid, destination)) continue;
      const auto hop = FindNextHop(addresses, device->routes(), each.gid, destination);
      if (hop.ok()) return SourceAddress{device, each.vlan_id, each.gid};
    }
  }
  return std::nullopt;
}

absl::StatusOr<SourceAddress> SourceChoice::AskKernel(const Gid& destination, int ifindex) {
  const absl::StatusOr<KernelRoute> route = kernel_.RouteTo(destination, ifindex);
  if (!route.ok()) return route.status();
  if (const auto source = FindOnInterface(route->ifindex, route->source)) return *source;
  return absl::NotFoundError(absl::StrCat("the route to ", FormatAddress(destination),
                                          " leads by an interface that is no NIC's"));
}

std::optional<SourceAddress> SourceChoice::FindOnInterface(int ifindex,
                                                           const Gid& preferred) const {
  for (const NetDevice* device : devices_) {
    if (HasOwnRoutes(*device)) continue;
    for (const InterfaceAddress& each : AddressesOf(*device)) {
      if (each.gid != preferred || device->InterfaceOf(each.vlan_id) != ifindex) continue;
      return SourceAddress{device, each.vlan_id, each.gid};
    }
  }
  return std::nullopt;
}

}  // namespace uroce::nic
