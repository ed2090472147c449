// SPDX-License-Identifier: Apache-2.0
// Layouts of the headers of a RoCEv2 frame on the wire (docs/protocol/wire-format.md, sections 1 to
// 3). Only decode and encode use them for RoCE packets; all other code uses wire::Packet.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "pipeline/base/types.h"
#include "pipeline/wire/be.h"

namespace uroce::wire {

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint8_t kIpProtocolUdp = 17;
inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr uint32_t kIcrcBytes = 4;
/// The smallest frame that an Ethernet MAC sends, without its FCS.
inline constexpr uint32_t kMinFrameBytes = 60;

struct EthernetHeader {
  Mac destination;
  Mac source;
  Be<2> ether_type;
};

/// Follows the EthernetHeader of a tagged frame, whose `ether_type` is 0x8100.
struct VlanTag {
  Be<2> tci;  // 15:13 priority, 12 drop eligible, 11:0 VLAN id
  Be<2> ether_type;
};

struct Ipv4Header {
  uint8_t version_ihl;
  uint8_t traffic_class;  // 7:2 DSCP, 1:0 ECN
  Be<2> total_length;
  Be<2> identification;
  Be<2> fragment;  // 14 do not fragment, 13 more fragments, 12:0 offset
  uint8_t ttl;
  uint8_t protocol;
  Be<2> checksum;
  std::array<uint8_t, 4> source;
  std::array<uint8_t, 4> destination;
};

struct Ipv6Header {
  Be<4> version_class_flow;  // 31:28 version, 27:20 traffic class, 19:0 flow label
  Be<2> payload_length;
  uint8_t next_header;
  uint8_t hop_limit;
  std::array<uint8_t, 16> source;
  std::array<uint8_t, 16> destination;
};

struct UdpHeader {
  Be<2> source_port;
  Be<2> destination_port;
  Be<2> length;
  Be<2> checksum;
};

/// Bit of BthLayout::flags: the sender's path has migrated, or it has no alternate path.
inline constexpr uint8_t kMigReq = 0x40;

/// Base Transport Header. IBTA vol. 1, 9.2.
struct BthLayout {
  uint8_t opcode;
  uint8_t flags;  // 7 solicited event, 6 MigReq, 5:4 pad count, 3:0 header version
  Be<2> pkey;
  uint8_t congestion;  // 7 FECN, 6 BECN, 5:0 reserved: host_delay.h
  Be<3> dest_qpn;
  uint8_t ack_request;  // 7 AckReq, 6:0 reserved: 0 when sent, ignored when received
  Be<3> psn;
};

struct DethLayout {
  Be<4> qkey;
  uint8_t reserved;
  Be<3> source_qpn;
};

struct XrcethLayout {
  uint8_t reserved;
  Be<3> srqn;
};

struct RethLayout {
  Be<8> va;
  Be<4> rkey;
  Be<4> length;
};

struct AtomicEthLayout {
  Be<8> va;
  Be<4> rkey;
  Be<8> swap_add;
  Be<8> compare;
};

struct AethLayout {
  uint8_t syndrome;
  Be<3> msn;
};

struct AtomicAckEthLayout {
  Be<8> original;
};

/// The four bytes go unchanged from the sender's work request into the receiver's completion.
struct ImmDtLayout {
  std::array<uint8_t, 4> bytes;
};

struct IethLayout {
  Be<4> rkey;
};

template <typename Layout, size_t bytes>
inline constexpr bool kIsWireLayout = sizeof(Layout) == bytes &&
                                      alignof(Layout) == 1 && std::is_trivially_copyable_v<Layout>;

static_assert(kIsWireLayout<EthernetHeader, 14>);
static_assert(kIsWireLayout<VlanTag, 4>);
static_assert(kIsWireLayout<Ipv4Header, 20>);
static_assert(kIsWireLayout<Ipv6Header, 40>);
static_assert(kIsWireLayout<UdpHeader, 8>);
static_assert(kIsWireLayout<BthLayout, 12>);
static_assert(kIsWireLayout<DethLayout, 8>);
static_assert(kIsWireLayout<XrcethLayout, 4>);
static_assert(kIsWireLayout<RethLayout, 16>);
static_assert(kIsWireLayout<AtomicEthLayout, 28>);
static_assert(kIsWireLayout<AethLayout, 4>);
static_assert(kIsWireLayout<AtomicAckEthLayout, 8>);
static_assert(kIsWireLayout<ImmDtLayout, 4>);
static_assert(kIsWireLayout<IethLayout, 4>);

}  // namespace uroce::wire
