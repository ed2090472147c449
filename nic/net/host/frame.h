// SPDX-License-Identifier: Apache-2.0
// Ethernet, ARP, IP, ICMP and IGMP as the daemon needs them when it is the host of a port: header
// layouts, checksums, checked views of received frames, and frames to send. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::nic {

// ---- wire layouts ----
// The headers that a host uses beside RoCE: ARP (RFC 826), ICMP (RFC 792), IGMP (RFC 2236, 2; RFC
// 3376, 4), neighbour discovery (RFC 4861, 4), MLDv2 (RFC 3810, 5). The layouts of Ethernet and IP
// are in pipeline/wire/packet.h.

using wire::Be;

inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint8_t kIpProtocolHopByHop = 0;
inline constexpr uint8_t kIpProtocolIcmp = 1;
inline constexpr uint8_t kIpProtocolIgmp = 2;
inline constexpr uint8_t kIpProtocolIcmpv6 = 58;

inline constexpr uint8_t kIcmpEchoReply = 0;
inline constexpr uint8_t kIcmpEchoRequest = 8;
inline constexpr uint8_t kIcmpv6EchoRequest = 128;
inline constexpr uint8_t kIcmpv6EchoReply = 129;
inline constexpr uint8_t kIcmpv6ListenerQuery = 130;
inline constexpr uint8_t kIcmpv6RouterSolicitation = 133;
inline constexpr uint8_t kIcmpv6RouterAdvertisement = 134;
inline constexpr uint8_t kIcmpv6NeighbourSolicitation = 135;
inline constexpr uint8_t kIcmpv6NeighbourAdvertisement = 136;
inline constexpr uint8_t kIcmpv6Redirect = 137;
inline constexpr uint8_t kIcmpv6ListenerReport = 143;

/// Hop limit of all neighbour discovery messages: it proves that no router forwarded them.
inline constexpr uint8_t kNdpHopLimit = 255;

inline constexpr Mac kBroadcastMac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
/// ff02::1 and ff02::16 (all MLDv2 routers).
inline constexpr Gid kAllNodes{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01}};
inline constexpr Gid kAllMldRouters{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};

struct ArpLayout {
  Be<2> hardware_type;  // 1: Ethernet.
  Be<2> protocol_type;  // 0x0800
  uint8_t hardware_bytes;
  uint8_t protocol_bytes;
  Be<2> operation;  // 1 request, 2 reply
  Mac sender_mac;
  std::array<uint8_t, 4> sender;
  Mac target_mac;
  std::array<uint8_t, 4> target;
};

/// The first bytes of every ICMP and ICMPv6 message.
struct IcmpLayout {
  uint8_t type;
  uint8_t code;
  Be<2> checksum;
};

/// A message of IGMP version 2, and the start of a query of version 3.
struct IgmpLayout {
  uint8_t type;
  uint8_t max_response;  // In units of 0.1 s.
  Be<2> checksum;
  std::array<uint8_t, 4> group;
};

/// A report of IGMP version 3; IgmpRecordLayout is one group of it, without sources.
struct IgmpReportLayout {
  uint8_t type;
  uint8_t reserved;
  Be<2> checksum;
  Be<2> reserved2;
  Be<2> group_count;
};
struct IgmpRecordLayout {
  uint8_t type;  // 3: to INCLUDE{}, group left; 4: to EXCLUDE{}, group joined.
  uint8_t auxiliary_words;
  Be<2> source_count;
  std::array<uint8_t, 4> group;
};

/// IPv4 option: router alert (RFC 2113).
using RouterAlertOption = std::array<uint8_t, 4>;

/// Neighbour solicitation and advertisement up to their options.
struct NeighbourLayout {
  IcmpLayout icmp;
  Be<4> flags;  // Of an advertisement: bit 31 router, 30 solicited, 29 override.
  std::array<uint8_t, 16> target;
};

/// The options that carry a MAC: types 1 (source) and 2 (target).
struct MacOptionLayout {
  uint8_t type;
  uint8_t length;  // In units of 8 bytes.
  Mac mac;
};

struct ListenerReportLayout {
  IcmpLayout icmp;
  Be<2> reserved;
  Be<2> record_count;
};

/// One group of a report, without sources.
struct ListenerRecordLayout {
  uint8_t type;  // As in IgmpRecordLayout.
  uint8_t auxiliary_words;
  Be<2> source_count;
  std::array<uint8_t, 16> group;
};

/// Hop-by-hop header with a router alert (RFC 2711) and two bytes of padding.
struct RouterAlertLayout {
  uint8_t next_header;
  uint8_t length;
  std::array<uint8_t, 6> options;
};

static_assert(wire::kIsWireLayout<ArpLayout, 28>);
static_assert(wire::kIsWireLayout<IcmpLayout, 4>);
static_assert(wire::kIsWireLayout<IgmpLayout, 8>);
static_assert(wire::kIsWireLayout<IgmpReportLayout, 8>);
static_assert(wire::kIsWireLayout<IgmpRecordLayout, 8>);
static_assert(wire::kIsWireLayout<NeighbourLayout, 24>);
static_assert(wire::kIsWireLayout<MacOptionLayout, 8>);
static_assert(wire::kIsWireLayout<ListenerReportLayout, 8>);
static_assert(wire::kIsWireLayout<ListenerRecordLayout, 20>);
static_assert(wire::kIsWireLayout<RouterAlertLayout, 8>);

// ---- the Internet checksum (RFC 1071) ----

/// One's complement of the one's complement sum of the 16 bit words of `bytes`; an odd last byte
/// counts as if a zero followed. 0 over bytes that hold their own right checksum.
uint16_t InternetChecksum(std::span<const uint8_t> bytes);

/// The checksum of an ICMPv6 message and its pseudo header (RFC 8200, 8.1).
uint16_t Icmpv6Checksum(const Gid& source, const Gid& destination,
                        std::span<const uint8_t> message);

// ---- frames ----

using Bytes = std::span<const uint8_t>;

/// The IPv4 address in an IPv4-mapped GID, in network order.
std::array<uint8_t, 4> Ipv4Bytes(const Gid& gid);
/// A whole frame, from the destination MAC on, without FCS; at least 60 bytes where we made it.
using Frame = std::vector<uint8_t>;

/// The result for a frame that the host was given. Each result is counted.
enum class FrameResult : uint8_t {
  kTaken,
  kNotForUs,   ///< Another MAC, address, VLAN or protocol; or our own frame.
  kTruncated,  ///< Shorter than its headers or lengths say, or a wrong length.
  kBadHeader,  ///< Version, hop limit, ICMP code, hardware type, option of length 0.
  kBadChecksum,
  kFragment,    ///< The host reassembles no fragments: no message for it is large.
  kBadAddress,  ///< A MAC or address is not unicast where it must be.
};
inline constexpr int kFrameResultCount = static_cast<int>(FrameResult::kBadAddress) + 1;

/// A parsed Ethernet frame. A priority tag (VLAN 0) counts as no tag.
struct EthernetView {
  Mac destination{};
  Mac source{};
  uint16_t vlan_id = 0;
  uint16_t ether_type = 0;
  Bytes payload;  ///< May end in padding.
};
[[nodiscard]] FrameResult ParseEthernet(Bytes frame, EthernetView& view);

/// A parsed IP packet. Of extension headers only hop-by-hop options are skipped.
struct IpView {
  Gid source;
  Gid destination;
  uint8_t protocol = 0;
  uint8_t hop_limit = 0;
  bool has_options = false;  ///< IPv4 options, which were skipped.
  Bytes payload;             ///< Exactly as long as the IP header says.
};
[[nodiscard]] FrameResult ParseIpv4(Bytes packet, IpView& view);
[[nodiscard]] FrameResult ParseIpv6(Bytes packet, IpView& view);

/// Copies the layout at `offset` of `bytes`. The caller has checked that it lies within.
template <typename Layout>
Layout Load(Bytes bytes, size_t offset = 0) {
  Layout layout;
  std::memcpy(&layout, bytes.data() + offset, sizeof(layout));
  return layout;
}

inline bool IsUnicast(const Mac& mac) { return (mac[0] & 1) == 0 && mac != Mac{}; }

/// The Ethernet addresses of a frame, and its VLAN.
struct Link {
  Mac source{};
  Mac destination{};
  uint16_t vlan_id = 0;  ///< 0: untagged.
};

/// Writes a frame from the front to the back.
class FrameWriter {
 public:
  FrameWriter(const Link& link, uint16_t ether_type);

  template <typename Layout>
  void Add(const Layout& layout) {
    AddBytes({reinterpret_cast<const uint8_t*>(&layout), sizeof(layout)});
  }
  void AddBytes(Bytes bytes) { frame_.insert(frame_.end(), bytes.begin(), bytes.end()); }
  /// Adds an IPv4 header for `payload_bytes` that follow. It says "do not fragment".
  void AddIpv4(const Gid& source, const Gid& destination, uint8_t protocol, size_t payload_bytes);
  /// Adds an IPv4 header with a router alert, as IGMP is sent: every router on the way reads it.
  void AddIpv4WithRouterAlert(const Gid& source, const Gid& destination, uint8_t protocol,
                              uint8_t ttl, size_t payload_bytes);
  void AddIpv6(const Gid& source, const Gid& destination, uint8_t protocol, uint8_t hop_limit,
               size_t payload_bytes);
  /// Adds an ICMPv6 message, and fills in its checksum.
  void AddIcmpv6(const Gid& source, const Gid& destination, Bytes message);
  /// The frame, padded to the least that Ethernet sends.
  Frame Finish();

 private:
  Frame frame_;
};

}  // namespace uroce::nic
