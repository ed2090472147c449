// SPDX-License-Identifier: Apache-2.0
#include "nic/net/route.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kAllBits = 128;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" ", why));
}

absl::StatusOr<Gid> ParseNextHop(absl::string_view text) {
  const absl::StatusOr<IpPrefix> hop = ParseIpPrefix(text);
  if (!hop.ok() || hop->bits != kAllBits || !IsUnicast(hop->gid)) {
    return Bad(text, "is not the address of a gateway, such as 192.0.2.254");
  }
  return hop->gid;
}

bool HasBitsBehind(const IpPrefix& prefix) {
  for (size_t bit = prefix.bits; bit < kAllBits; ++bit) {
    if ((prefix.gid.bytes[bit / 8] >> (7 - bit % 8) & 1) != 0) return true;
  }
  return false;
}

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

absl::StatusOr<Route> ParseRoute(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.size() != 3 || words[1] != "via") {
    return Bad(text, "is not a route such as 10.9.0.0/16 via 192.0.2.7");
  }
  const absl::StatusOr<IpPrefix> prefix = ParseIpPrefix(words[0]);
  if (!prefix.ok()) return prefix.status();
  if (HasBitsBehind(*prefix)) return Bad(text, "has bits set behind its prefix");
  const absl::StatusOr<Gid> gateway = ParseNextHop(words[2]);
  if (!gateway.ok()) return gateway.status();
  if (gateway->is_ipv4() != prefix->gid.is_ipv4()) {
    return Bad(text, "joins IPv4 and IPv6; both sides must be of one family");
  }
  return Route{prefix->gid, prefix->bits, *gateway};
}

absl::StatusOr<Route> ParseGateway(absl::string_view text) {
  const absl::StatusOr<Gid> gateway = ParseNextHop(text);
  if (!gateway.ok()) return gateway.status();
  return ParseRoute(absl::StrCat(gateway->is_ipv4() ? "0.0.0.0/0" : "::/0", " via ", text));
}

std::string FormatRoute(const Route& route) {
  const InterfaceAddress prefix{route.prefix, route.prefix_bits};
  return absl::StrCat(FormatInterfaceAddress(prefix), " via ", FormatAddress(route.gateway));
}

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
