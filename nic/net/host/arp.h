// SPDX-License-Identifier: Apache-2.0
// Parses and builds packets of the address resolution protocol for IPv4 (RFC 826). Pure.
#pragma once

#include "nic/net/host/frame.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

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

}  // namespace uroce::nic
