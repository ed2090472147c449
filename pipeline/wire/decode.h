// SPDX-License-Identifier: Apache-2.0
// Decodes an Ethernet frame into a wire::Packet, once, on arrival. All later code relies on the
// checks that are made here.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Why a frame is no RoCEv2 packet, or kOk.
enum class DecodeResult : uint8_t {
  kOk,
  // Frames that are not RoCEv2.
  kNotIp,        ///< Other ethertype, such as RoCEv1 or a double tag; or no Ethernet header.
  kNotUdp,       ///< Other IP protocol; IPv6 extension headers too.
  kNotRocePort,  ///< UDP to another port than 4791.
  // RoCEv2, or a broken frame that may be RoCEv2.
  kTruncated,         ///< The frame is shorter than its headers, or than its IP length.
  kBadIpVersion,      ///< The version in the IP header is not that of the ethertype.
  kIpOptions,         ///< IPv4 header longer than 20 bytes.
  kFragment,          ///< IPv4 fragment.
  kMappedAddress,     ///< IPv6 with an address ::ffff:a.b.c.d, which would look like IPv4.
  kBadIpChecksum,     ///< IPv4 header checksum: only it protects traffic class and TTL.
  kBadUdpLength,      ///< Not the length that IP leaves, or too short for BTH and ICRC.
  kBadBthVersion,     ///< TVer is not 0.
  kBadPad,            ///< More pad than body, or a body that is no multiple of four bytes.
  kBadPayloadLength,  ///< Ends within its headers, or an acknowledgement with a payload.
  kUnknownOpcode,     ///< Unknown, and not of a reliable service, which would answer it.
};
inline constexpr int kDecodeResultCount = static_cast<int>(DecodeResult::kUnknownOpcode) + 1;

/// The kinds of results that have their own counters.
enum class DecodeClass : uint8_t { kOk, kNotRoce, kMalformed, kUnknownOpcode };

constexpr DecodeClass ClassOf(DecodeResult result) {
  if (result == DecodeResult::kOk) return DecodeClass::kOk;
  if (result <= DecodeResult::kNotRocePort) return DecodeClass::kNotRoce;
  if (result == DecodeResult::kUnknownOpcode) return DecodeClass::kUnknownOpcode;
  return DecodeClass::kMalformed;
}

/// The offsets in a decoded frame, and the Ethernet fields that the receiver must check.
struct FrameView {
  Mac destination{};
  uint16_t vlan_tci = 0;  ///< 0 without an 802.1Q tag.
  bool is_ipv6 = false;
  uint8_t ip_offset = 0;  ///< The ICRC's input starts here ...
  uint8_t bth_offset = 0;
  uint16_t icrc_offset = 0;  ///< ... and ends here; Ethernet padding may follow the ICRC.
};

/// Decodes a whole frame, from the destination MAC on. `packet.payload` points into `frame`.
/// `packet` and `view` are valid only on kOk. Does not check the ICRC: see icrc.h.
[[nodiscard]] DecodeResult Decode(std::span<const uint8_t> frame, Packet& packet, FrameView& view);

/// Decodes the frame of a packet of a superframe whose headers before BTH are those of the packet
/// that `packet` and `view` were decoded from, but for lengths, identification and checksum, as
/// SuperframeCutter writes them. `packet` and `view` are valid only on kOk.
[[nodiscard]] DecodeResult DecodeSegment(std::span<const uint8_t> frame, Packet& packet,
                                         FrameView& view);

// The 40 bytes in front of a received datagram, in the place of InfiniBand's GRH.

/// The IP header of a decoded frame in the form that programs expect: an IPv6 header from byte 0
/// on, or 20 zeros and an IPv4 header. Programs recognize the IPv4 header by its checksum
/// (docs/protocol/wire-format.md, section 3.1).
std::array<uint8_t, 40> GrhArea(std::span<const uint8_t> frame, const FrameView& view);

}  // namespace uroce::wire
