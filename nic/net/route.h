// SPDX-License-Identifier: Apache-2.0
// Routes of a port beyond its own prefixes. Pure.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::nic {

/// Destinations in a prefix are reached by a gateway that is on link. IPv4 as ::ffff:a.b.c.d.
struct Route {
  Gid prefix;               ///< Bits behind `prefix_bits` are zero.
  uint8_t prefix_bits = 0;  ///< Counted in the 128 bits of the GID; IPv4's default route has 96.
  Gid gateway;
  friend bool operator==(const Route&, const Route&) = default;
};

}  // namespace uroce::nic
