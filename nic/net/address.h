// SPDX-License-Identifier: Apache-2.0
// Parses and formats addresses: IP addresses with prefix, GIDs, MACs. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Bits of a GID in front of an IPv4 address.
inline constexpr uint8_t kIpv4Bits = 96;

/// An IP address of a port and its on-link prefix. IPv4 as ::ffff:a.b.c.d.
struct InterfaceAddress {
  Gid gid;
  uint8_t prefix_bits = 128;  ///< Counted in the 128 bits of the GID: 96 + n for IPv4.
  uint16_t vlan_id = 0;       ///< 802.1Q, 1 to 4094; 0: untagged.
  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

/// Parses "10.0.0.1/24", "fd00::1/64" or "10.0.0.1/24 vlan 100". Without a prefix length the prefix
/// is the address alone (/32, /128). Errors: not an address, not a unicast address, prefix or VLAN
/// out of range.
absl::StatusOr<InterfaceAddress> ParseInterfaceAddress(absl::string_view text);

/// An address of any kind, and the number of its significant bits: 96 + n for IPv4.
struct IpPrefix {
  Gid gid;
  uint8_t bits = 128;
};
/// Parses "10.0.0.0/16" or "::/0"; without a prefix length all bits are significant. Errors: not an
/// address, prefix length out of range.
absl::StatusOr<IpPrefix> ParseIpPrefix(absl::string_view text);
/// An address that a port can own: not multicast, broadcast, reserved, loopback or unspecified.
bool IsUnicast(const Gid& gid);

/// IPv4 address as a GID. `address` is in host order.
Gid Ipv4Gid(uint32_t address);
/// fe80::/64 with the EUI-64 of `mac`: the default GID (docs/protocol/verbs-semantics.md,
/// section 1).
Gid DefaultGid(const Mac& mac);
/// The EUI-64 of `mac` as ibv_get_device_guid returns it: big endian in memory.
uint64_t NodeGuid(const Mac& mac);

bool IsLinkLocal(const Gid& gid);
bool IsMulticast(const Gid& gid);
/// Whether `gid` lies in the prefix of `address`.
bool OnLink(const InterfaceAddress& address, const Gid& gid);
/// Destination MAC of a multicast GID (docs/protocol/verbs-semantics.md, section 4).
Mac MulticastMac(const Gid& gid);

/// The parts of an 802.1Q tag. `priority` is the SL of a path, of which three bits are carried
/// (docs/protocol/wire-format.md, section 1).
constexpr uint16_t VlanIdOf(uint16_t tci) { return tci & 0xfff; }
constexpr uint16_t VlanTci(uint16_t vlan_id, uint8_t priority) {
  return static_cast<uint16_t>((priority & 7) << 13 | vlan_id);
}

/// Formats as "10.0.0.1" or "fe80::1".
std::string FormatAddress(const Gid& gid);
/// Formats as "10.0.0.1/24" or "10.0.0.1/24 vlan 100".
std::string FormatInterfaceAddress(const InterfaceAddress& address);
/// Formats as eight groups of four hex digits, as sysfs shows a GID.
std::string FormatGid(const Gid& gid);
std::string FormatMac(const Mac& mac);

}  // namespace uroce::nic
