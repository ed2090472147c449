// SPDX-License-Identifier: Apache-2.0
#include "nic/net/next_hop.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

struct Match {
  int prefix_bits = -1;
  Gid hop;
};

bool IsOnLink(const std::vector<InterfaceAddress>& addresses, uint16_t vlan_id, const Gid& gid) {
  return std::ranges::any_of(addresses, [&](const InterfaceAddress& address) {
    return address.vlan_id == vlan_id && OnLink(address, gid);
  });
}

// Treats a route's prefix like an address's.
bool Covers(const Route& route, const Gid& gid) {
  return route.prefix.is_ipv4() == gid.is_ipv4() &&
         OnLink({.gid = route.prefix, .prefix_bits = route.prefix_bits}, gid);
}

Match BestMatch(const std::vector<InterfaceAddress>& addresses, const std::vector<Route>& routes,
                uint16_t vlan_id, const Gid& destination) {
  Match best;
  for (const InterfaceAddress& address : addresses) {
    if (address.vlan_id != vlan_id || !OnLink(address, destination)) continue;
    if (address.prefix_bits > best.prefix_bits) best = {address.prefix_bits, destination};
  }
  for (const Route& route : routes) {
    if (!Covers(route, destination) || route.prefix_bits <= best.prefix_bits) continue;
    if (!IsLinkLocal(route.gateway) && !IsOnLink(addresses, vlan_id, route.gateway)) continue;
    best = {route.prefix_bits, route.gateway};
  }
  return best;
}

}  // namespace

absl::StatusOr<NextHop> FindNextHop(const std::vector<InterfaceAddress>& addresses,
                                    const std::vector<Route>& routes, const Gid& source,
                                    const Gid& destination) {
  const auto own = std::ranges::find(addresses, source, &InterfaceAddress::gid);
  const uint16_t vlan_id = own == addresses.end() ? 0 : own->vlan_id;
  if (IsLinkLocal(destination)) return NextHop{destination, vlan_id};
  const Match match = BestMatch(addresses, routes, vlan_id, destination);
  if (match.prefix_bits < 0) {
    return absl::UnavailableError(absl::StrCat("no route from ", FormatAddress(source), " to ",
                                               FormatAddress(destination),
                                               "; give a gateway or a route"));
  }
  if (IsLinkLocal(source) && match.hop != destination) {
    return absl::UnavailableError(absl::StrCat("the link-local address ", FormatAddress(source),
                                               " cannot reach ", FormatAddress(destination),
                                               " through a gateway"));
  }
  return NextHop{match.hop, vlan_id};
}

}  // namespace uroce::nic
