// SPDX-License-Identifier: Apache-2.0
// Neighbour solicitations and advertisements of IPv6 (RFC 4861, 4.3 and 4.4), as values. Pure.
#pragma once

#include <optional>

#include "nic/net/host/frame.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Asks for the MAC of `target`. `source` is :: while the sender checks whether another host has
/// the address (RFC 4862, 5.4).
struct NeighbourSolicitation {
  Gid source;
  Gid destination;
  Gid target;
  std::optional<Mac> source_mac;
};

/// Says that the sender has `target`.
struct NeighbourAdvertisement {
  Gid source;
  Gid destination;
  Gid target;
  bool solicited = false;
  bool overrides = false;  ///< Replaces the MAC in the receiver's cache.
  std::optional<Mac> target_mac;
};

/// Parse and check by RFC 4861, 7.1.1 and 7.1.2; the caller has checked the ICMPv6 checksum.
[[nodiscard]] FrameResult ParseSolicitation(const IpView& ip, NeighbourSolicitation& solicitation);
[[nodiscard]] FrameResult ParseAdvertisement(const IpView& ip,
                                             NeighbourAdvertisement& advertisement);

Frame MakeSolicitation(const NeighbourSolicitation& solicitation, const Link& link);
Frame MakeAdvertisement(const NeighbourAdvertisement& advertisement, const Link& link);

/// ff02::1:ffXX:XXXX with the low 24 bits of `address` (RFC 4291, 2.7.1).
Gid SolicitedNodeGroup(const Gid& address);

}  // namespace uroce::nic
