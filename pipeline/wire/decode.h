// SPDX-License-Identifier: Apache-2.0
// From the bytes of an Ethernet frame to a wire::Packet: done once, at the edge. All code behind
// relies on the checks made here.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Why a frame is no RoCEv2 packet, or kOk.
enum class DecodeResult : uint8_t {
  kOk,
  // Somebody else's frame.
  kNotIp,        ///< Other ethertype, RoCEv1 and double tags among them; or no Ethernet header.
  kNotUdp,       ///< Other IP protocol; IPv6 extension headers too.
  kNotRocePort,  ///< UDP to another port than 4791.
  // RoCEv2, or it would be, but wrong.
  kTruncated,         ///< The frame ends before its headers do, or before its IP length says.
  kBadIpVersion,      ///< The version in the IP header is not that of the ethertype.
  kIpOptions,         ///< IPv4 header longer than 20 bytes.
  kFragment,          ///< IPv4 fragment.
  kMappedAddress,     ///< An IPv6 packet with an address ::ffff:a.b.c.d would pass for IPv4.
  kBadIpChecksum,     ///< IPv4 header checksum: traffic class and TTL have no other guard.
  kBadUdpLength,      ///< Not what the IP header leaves for it, or too short for BTH and ICRC.
  kBadBthVersion,     ///< TVer is not 0.
  kBadPad,            ///< More pad than body, or a body not a multiple of four bytes.
  kBadPayloadLength,  ///< Cut inside its headers, or an acknowledgement with a payload.
  kUnknownOpcode,     ///< In no table, and of no reliable service, which would answer it.
};
inline constexpr int kDecodeResultCount = static_cast<int>(DecodeResult::kUnknownOpcode) + 1;

/// The kinds of results that are counted apart.
enum class DecodeClass : uint8_t { kOk, kNotRoce, kMalformed, kUnknownOpcode };

constexpr DecodeClass ClassOf(DecodeResult result) {
  if (result == DecodeResult::kOk) return DecodeClass::kOk;
  if (result <= DecodeResult::kNotRocePort) return DecodeClass::kNotRoce;
  if (result == DecodeResult::kUnknownOpcode) return DecodeClass::kUnknownOpcode;
  return DecodeClass::kMalformed;
}

/// Where the parts of a decoded frame lie, and what of Ethernet the receiver must still judge.
struct FrameView {
  Mac destination{};
  uint16_t vlan_tci = 0;  ///< 0 without an 802.1Q tag.
  bool is_ipv6 = false;
  uint8_t ip_offset = 0;  ///< The ICRC's input starts here ...
  uint8_t bth_offset = 0;
  uint16_t icrc_offset = 0;  ///< ... and ends here; Ethernet padding may follow the ICRC.
};

/// Decodes a whole frame, from the destination MAC on. `packet.payload` points into `frame`.
/// What `packet` and `view` hold is of use only on kOk. Does not look at the ICRC: see icrc.h.
[[nodiscard]] DecodeResult Decode(std::span<const uint8_t> frame, Packet& packet, FrameView& view);

}  // namespace uroce::wire
