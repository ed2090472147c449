// SPDX-License-Identifier: Apache-2.0
// Routes of a port beyond its own prefixes. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

}  // namespace uroce::nic
