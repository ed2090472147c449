// SPDX-License-Identifier: Apache-2.0
// Layouts of the headers of a RoCEv2 frame on the wire, the integers in network byte order of which
// they consist, and the Internet checksum (docs/protocol/wire-format.md, sections 1 to 3; RFC
// 1071). Only decode and encode use the layouts for RoCE packets; all other code uses wire::Packet.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "pipeline/base/types.h"

namespace uroce::wire {

/// Unsigned integer of N bytes in network order, at any alignment. There is no implicit conversion.
template <size_t N>
class Be {
  static_assert(N >= 2 && N <= 8);

 public:
  using Host = std::conditional_t<N <= 2, uint16_t, std::conditional_t<N <= 4, uint32_t, uint64_t>>;
  Be() = default;
  /// Keeps the low N bytes of `host`.
  constexpr explicit Be(Host host) {
    for (size_t i = 0; i < N; ++i) bytes_[i] = static_cast<uint8_t>(host >> (8 * (N - 1 - i)));
  }
  constexpr Host value() const {
    if (!std::is_constant_evaluated() && N == sizeof(Host)) return Swapped();
    Host host = 0;
    for (size_t i = 0; i < N; ++i) host = static_cast<Host>((uint64_t{host} << 8) | bytes_[i]);
    return host;
  }

 private:
  /// One load and one byte swap. Written by hand, because GCC 12 loads single bytes in the loop.
  Host Swapped() const {
    static_assert(std::endian::native == std::endian::little);
    Host host;
    std::memcpy(&host, bytes_, N);
    if constexpr (sizeof host == 2) return __builtin_bswap16(host);
    if constexpr (sizeof host == 4) return __builtin_bswap32(host);
    if constexpr (sizeof host == 8) return __builtin_bswap64(host);
  }

  uint8_t bytes_[N];
};

// The arithmetic of the Internet checksum (RFC 1071).

/// Sum of the 16-bit words of `bytes` in network order; a zero follows an odd last byte. Sums of
/// parts of even length may be added.
inline uint64_t SumOfWords(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  size_t at = 0;
  for (; at + 1 < bytes.size(); at += 2) sum += uint32_t{bytes[at]} << 8 | bytes[at + 1];
  if (at < bytes.size()) sum += uint32_t{bytes[at]} << 8;
  return sum;
}

/// The one's complement sum in 16 bits. A checksum is its complement.
inline uint16_t FoldSum(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

inline uint16_t ChecksumOfSum(uint64_t sum) { return static_cast<uint16_t>(~FoldSum(sum)); }

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
  uint8_t congestion;  // 7 FECN, 6 BECN, 5:0 reserved: HostDelayOf
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
