// SPDX-License-Identifier: Apache-2.0
// Routes of a port that is a host of its own: from a destination to a neighbour. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/net/address.h"
#include "nic/net/route.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

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
