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

/// Who gets packets from `source`, one of `addresses`, to `destination`. The source decides the
/// VLAN; there the longest prefix does, and among equal ones that of an address before a route.
/// Link-local destinations are on link, and link-local sources never leave it (RFC 4007, 9).
/// Errors: Unavailable without a way there.
absl::StatusOr<NextHop> FindNextHop(const std::vector<InterfaceAddress>& addresses,
                                    const std::vector<Route>& routes, const Gid& source,
                                    const Gid& destination);

}  // namespace uroce::nic
