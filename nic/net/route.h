// SPDX-License-Identifier: Apache-2.0
// The routes of a port that is a host itself: how the settings write them, and the next hop that
// they give for a destination. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/net/address.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// A route to a prefix by a gateway that is on link. IPv4 as ::ffff:a.b.c.d. A route serves only
/// destinations of its gateway's family: "::/0" contains no IPv4 address.
struct Route {
  Gid prefix;               ///< Bits behind `prefix_bits` are zero.
  uint8_t prefix_bits = 0;  ///< Counted in the 128 bits of the GID; IPv4's default route has 96.
  Gid gateway;
  friend bool operator==(const Route&, const Route&) = default;
};

/// Parses "10.9.0.0/16 via 192.0.2.7". Errors: not of this form, bits behind the prefix, gateway of
/// the other family or not unicast.
absl::StatusOr<Route> ParseRoute(absl::string_view text);
/// Parses "192.0.2.254": the default route of its family by this gateway.
absl::StatusOr<Route> ParseGateway(absl::string_view text);
/// Formats as "10.9.0.0/16 via 192.0.2.7".
std::string FormatRoute(const Route& route);

/// A neighbour on one of the VLANs of a port.
struct NextHop {
  Gid address;
  uint16_t vlan_id = 0;  ///< 0: untagged.
  friend auto operator<=>(const NextHop&, const NextHop&) = default;
};

/// Returns the next hop for packets from `source`, one of `addresses`, to `destination`. The source
/// decides the VLAN. On it the longest prefix wins, and among equal ones an address's before a
/// route's. Link-local destinations are on link, and packets from link-local sources are never
/// routed (RFC 4007, 9). Errors: Unavailable if there is no next hop.
absl::StatusOr<NextHop> FindNextHop(const std::vector<InterfaceAddress>& addresses,
                                    const std::vector<Route>& routes, const Gid& source,
                                    const Gid& destination);

}  // namespace uroce::nic
