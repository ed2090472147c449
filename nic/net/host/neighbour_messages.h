// SPDX-License-Identifier: Apache-2.0
// The messages that ask for a neighbour's MAC and answer: ARP for IPv4 and neighbour discovery for
// IPv6. Pure.
#pragma once

#include <optional>

#include "nic/net/host/frame.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

// ---- ARP (RFC 826) ----

/// One packet. Addresses are IPv4 GIDs.
struct ArpPacket {
  bool is_request = true;
  Mac sender_mac{};
  Gid sender;  ///< 0.0.0.0 in a probe (RFC 5227, 1.1).
  Mac target_mac{};
  Gid target;
};

/// kBadAddress: the sender's address is impossible, such as a multicast MAC.
[[nodiscard]] FrameResult ParseArp(Bytes payload, ArpPacket& packet);

Frame MakeArp(const ArpPacket& packet, const Link& link);

/// Whether `sender` of an ARP packet is the 0.0.0.0 of a probe.
bool IsArpProbe(const ArpPacket& packet);

// ---- neighbour discovery of IPv6 (RFC 4861, 4.3 and 4.4) ----

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
