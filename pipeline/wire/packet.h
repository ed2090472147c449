// SPDX-License-Identifier: Apache-2.0
// The headers of a RoCEv2 packet, as bytes and as values: layouts on the wire, PSNs, opcodes with
// the headers that follow them, and the packet that decode yields and encode takes
// (docs/protocol/wire-format.md, sections 1 to 5).
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "pipeline/base/types.h"

namespace uroce::wire {

// Layouts of the headers of a RoCEv2 frame on the wire, the integers in network byte order of which
// they consist, and the Internet checksum (docs/protocol/wire-format.md, sections 1 to 3; RFC
// 1071). Only decode and encode use the layouts for RoCE packets; all other code uses wire::Packet.

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

// What an acknowledgement carries beside its PSN: the syndrome of the AETH, the map of a selective
// acknowledgement, and how long a packet may have waited for its receiver's CPU
// (docs/protocol/wire-format.md, section 4; selective-repeat.md).

// Syndromes of the ACK extended transport header (docs/protocol/wire-format.md, section 4).

inline constexpr uint8_t kSyndromeKindMask = 0xe0;
inline constexpr uint8_t kSyndromeValueMask = 0x1f;

// Kinds: the top three bits. 0x40 and values from 0x80 on are reserved: such packets are ignored.
inline constexpr uint8_t kSyndromeAck = 0x00;     ///< Value: credit code.
inline constexpr uint8_t kSyndromeRnrNak = 0x20;  ///< Value: RNR timer code.
inline constexpr uint8_t kSyndromeNak = 0x60;     ///< Value: reason, below.

/// Credit code of a responder that does not limit its requester.
inline constexpr uint8_t kCreditsUnlimited = 0x1f;

// Whole syndromes of the NAKs.
inline constexpr uint8_t kNakSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperation = 0x63;
inline constexpr uint8_t kNakInvalidRdRequest = 0x64;

// How long the packet that a response answers may have waited for its receiver's CPU: six bits of
// the BTH, between NICs that agree to it (selective-repeat.md).

/// The six reserved bits beside FECN and BECN. The ICRC does not cover them.
inline constexpr uint8_t kHostDelayMask = 0x3f;
inline constexpr Nanos kHostDelayUnit{8'000};

/// The time of a code: 0 is none; other codes have two bits of fraction and four of exponent, 40 us
/// to 1.8 s.
constexpr Nanos HostDelayOf(uint8_t code) {
  if ((code & kHostDelayMask) == 0) return Nanos(0);
  return Nanos((int64_t{4 + (code & 3)} << (code >> 2 & 15)) * kHostDelayUnit.count());
}

/// The code of the longest time that is not longer than `delay`.
constexpr uint8_t HostDelayCode(Nanos delay) {
  if (delay < HostDelayOf(1)) return 0;
  const auto units = static_cast<uint64_t>(delay.count() / kHostDelayUnit.count());
  const int exponent = static_cast<int>(std::bit_width(units)) - 3;
  if (exponent > 15) return kHostDelayMask;
  return static_cast<uint8_t>(exponent << 2 | static_cast<int>(units >> exponent & 3));
}

static_assert(HostDelayOf(1) == Nanos(40'000) && HostDelayCode(Nanos(40'000)) == 1);
static_assert(HostDelayCode(HostDelayOf(kHostDelayMask)) == kHostDelayMask);

// The map behind the AETH of a selective acknowledgement: which packets from its PSN on the
// responder keeps (selective-repeat.md).

/// Layout: 16 reserved bits, 16 bits for the number of packets, then one bit per packet in words of
/// 32: bit i of word w is the PSN of the acknowledgement + 32 * w + i. 1: the packet is kept.
inline constexpr uint32_t kMaxKeptPackets = 2048;
inline constexpr uint32_t kKeptMapHeaderBytes = 4;
inline constexpr uint32_t kMaxKeptMapBytes = kKeptMapHeaderBytes + kMaxKeptPackets / 8;

/// The size in bytes of a map of `packets` packets.
constexpr uint32_t KeptMapBytes(uint32_t packets) {
  return kKeptMapHeaderBytes + (packets + 31) / 32 * 4;
}

/// A received map: a view of the bytes of the packet, which it does not own.
class KeptMap {
 public:
  /// Returns false when `bytes` is no map. A map has 1 to kMaxKeptPackets packets.
  [[nodiscard]] bool Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kKeptMapHeaderBytes) return false;
    packets_ = reinterpret_cast<const Be<2>*>(bytes.data() + 2)->value();
    words_ = bytes.data() + kKeptMapHeaderBytes;
    return packets_ != 0 && packets_ <= kMaxKeptPackets && bytes.size() == KeptMapBytes(packets_);
  }
  /// The number of packets that the map covers, from the PSN of the acknowledgement on. No later
  /// packet has come.
  uint32_t packets() const { return packets_; }
  /// The bits of the 64 packets from `first` on; 0 behind the last. `first` is a multiple of 64.
  uint64_t Kept(uint32_t first) const { return Word(first) | uint64_t{Word(first + 32)} << 32; }

 private:
  uint32_t Word(uint32_t first) const {
    if (first >= packets_) return 0;
    const uint32_t bits = reinterpret_cast<const Be<4>*>(words_ + first / 8)->value();
    const uint32_t rest = packets_ - first;
    return rest >= 32 ? bits : bits & ((uint32_t{1} << rest) - 1);
  }

  uint32_t packets_ = 0;
  const uint8_t* words_ = nullptr;
};

/// Writes a map of `packets` packets. `kept(first)` returns the bits of the 64 packets from `first`
/// on; bits behind the last packet are ignored. Returns KeptMapBytes(packets).
template <typename KeptBits>
uint32_t WriteKeptMap(uint32_t packets, KeptBits&& kept, std::span<uint8_t, kMaxKeptMapBytes> out) {
  assert(packets <= kMaxKeptPackets);
  const auto put = [&](uint32_t offset, uint32_t value) {
    const Be<4> bytes(value);
    std::memcpy(out.data() + offset, &bytes, sizeof bytes);
  };
  put(0, packets);
  for (uint32_t first = 0; first < packets; first += 32) {
    const auto bits = static_cast<uint32_t>(kept(first & ~uint32_t{63}) >> (first & 32));
    const uint32_t rest = packets - first;
    put(kKeptMapHeaderBytes + first / 8, rest >= 32 ? bits : bits & ((uint32_t{1} << rest) - 1));
  }
  return KeptMapBytes(packets);
}

// Packet sequence numbers and their circular arithmetic.

/// Packet sequence number: 24 bits, circular. The 2^23 PSNs before a PSN are its past.
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & 0xffffff) {}
  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t packets) const { return Psn(value_ + packets); }
  constexpr Psn operator-(uint32_t packets) const { return Psn(value_ - packets); }
  /// Packets from `origin` to this PSN, in [-2^23, 2^23).
  constexpr int32_t Since(Psn origin) const {
    return static_cast<int32_t>((value_ - origin.value_) << 8) >> 8;
  }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t value_ = 0;
};

/// The most PSNs that a requester may have outstanding: half of the PSN space. With more, the
/// responder could not tell an old packet from a new one (docs/protocol/transport.md, section 2).
inline constexpr uint32_t kMaxOutstandingPsns = 1u << 23;

/// Packets from `from` up to `to`, in [0, 2^24). Psn::Since returns distances in [-2^23, 2^23). A
/// READ of 2^31 bytes in packets of 256 bytes needs the distance 2^23, which is outside of these.
constexpr uint32_t Distance(Psn from, Psn to) { return (to.value() - from.value()) & 0xffffff; }

/// BTH opcodes and, per opcode, the headers that follow, the kind of packet and its position in the
/// message (docs/protocol/wire-format.md, section 5).
/// BTH opcode, all eight bits: three of transport, five of operation.
enum class Opcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastWithImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyWithImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastWithImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyWithImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastWithInvalidate = 0x16,
  kSendOnlyWithInvalidate = 0x17,
  kAtomicWrite = 0x1d,
  kUdSendOnly = 0x64,
  kUdSendOnlyWithImm = 0x65,
  kCnp = 0x81,
  /// Used by uroce only, in the range for manufacturers: carries the map of KeptMap.
  kSelectiveAcknowledge = 0xd1,
};

/// Transport class: the top three bits of the opcode.
enum class Service : uint8_t { kRc = 0, kUc = 1, kRd = 2, kUd = 3, kCnp = 4, kXrc = 5 };

/// The properties of one opcode. Bit sets, so that a decoder tests many flags with one mask.
struct OpcodeInfo {
  enum Header : uint16_t {
    kDeth = 1 << 0,
    kXrceth = 1 << 1,
    kReth = 1 << 2,
    kAtomicEth = 1 << 3,
    kAeth = 1 << 4,
    kAtomicAckEth = 1 << 5,
    kImmDt = 1 << 6,
    kIeth = 1 << 7,
  };
  enum Trait : uint16_t {
    kKnown = 1 << 0,
    kRequest = 1 << 1,   ///< Consumes a PSN of the requester.
    kResponse = 1 << 2,  ///< Travels from responder to requester.
    kSend = 1 << 3,
    kWrite = 1 << 4,
    kRead = 1 << 5,    ///< READ request or response.
    kAtomic = 1 << 6,  ///< Atomic request or acknowledgement. ATOMIC WRITE is answered as a READ.
    kFirst = 1 << 7,   ///< Opens a message; ONLY packets have kFirst and kLast.
    kLast = 1 << 8,    ///< Ends a message.
    kPayload = 1 << 9,
    kFullPayload = 1 << 10,  ///< The payload is exactly the path MTU (FIRST and MIDDLE).
    kKeptMap = 1 << 11,      ///< A KeptMap follows, in place of a payload.
  };
  uint16_t headers;
  uint16_t traits;
  /// Bytes of BTH and extended headers before the payload.
  uint8_t header_bytes;

  constexpr bool Has(Trait trait) const { return (traits & trait) != 0; }
  constexpr bool Has(Header header) const { return (headers & header) != 0; }
  constexpr bool is_middle() const { return Has(kFullPayload) && !Has(kFirst); }
};

/// One entry per value of the BTH opcode.
extern const std::array<OpcodeInfo, 256> kOpcodeTable;

/// The entry of `opcode`. Unknown opcodes do not have kKnown.
inline const OpcodeInfo& InfoOf(Opcode opcode) {
  return kOpcodeTable[static_cast<uint8_t>(opcode)];
}

/// The opcode of reliable connections for the operation of `opcode`.
constexpr Opcode OperationOf(Opcode opcode) {
  return static_cast<Opcode>(static_cast<uint8_t>(opcode) & 0x1f);
}

/// Whether `opcode` is one that manufacturers may define (docs/protocol/wire-format.md, section 5).
constexpr bool IsOfManufacturer(Opcode opcode) { return static_cast<uint8_t>(opcode) >= 0xc0; }

/// The opcode of `service` for `operation`, an opcode of reliable connections. Range: an opcode of
/// manufacturers only with kRc and kXrc.
constexpr Opcode OpcodeOf(Service service, Opcode operation) {
  const auto bits = static_cast<uint8_t>(service) << 5;
  return static_cast<Opcode>(static_cast<uint8_t>(operation) |
                             (IsOfManufacturer(operation) ? bits & 0x20 : bits));
}

/// The transport class of `opcode`. uroce uses those of manufacturers: 0xc0 to 0xdf for reliable
/// connections, 0xe0 to 0xff for extended ones.
constexpr Service ServiceOf(Opcode opcode) {
  constexpr std::array<Service, 8> kServices = {Service::kRc, Service::kUc,  Service::kRd,
                                                Service::kUd, Service::kCnp, Service::kXrc,
                                                Service::kRc, Service::kXrc};
  return kServices[static_cast<uint8_t>(opcode) >> 5];
}

/// RDMA extended transport header.
struct Reth {
  uint64_t va = 0;
  Rkey rkey;
  uint32_t length_bytes = 0;  ///< Of the whole (remaining) message, 0 .. 2^31.
};

/// Atomic extended transport header; operands in host order.
struct AtomicEth {
  uint64_t va = 0;
  Rkey rkey;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
};

/// ACK extended transport header.
struct Aeth {
  uint8_t syndrome = 0;
  uint32_t msn = 0;  ///< 24 bits.
};

/// Datagram extended transport header.
struct Deth {
  uint32_t qkey = 0;
  Qpn source_qpn;
};

/// BTH and extended headers by value. Members of headers that `opcode` lacks are meaningless.
struct TransportHeader {
  Opcode opcode = Opcode::kAcknowledge;
  bool solicited = false;
  bool ack_request = false;
  /// Of responses between NICs that agree to it: see HostDelayOf. Otherwise 0.
  uint8_t host_delay = 0;
  uint16_t pkey = 0xffff;
  Qpn dest_qpn;
  Psn psn;
  Aeth aeth;
  uint32_t immediate = 0;  ///< The four bytes of ImmDt as they lie in memory (a __be32).
  Rkey invalidate_rkey;
  Reth reth;
  AtomicEth atomic;
  uint64_t atomic_original = 0;  ///< AtomicAckETH, host order.
  Deth deth;
  uint32_t xrc_srqn = 0;  ///< XRCETH, 24 bits.
};

/// One received packet. `payload` points into the frame and excludes pad and ICRC. The payload of a
/// selective acknowledgement is the KeptMap.
struct Packet {
  TransportHeader header;
  std::span<const uint8_t> payload;
  Gid source;
  Gid destination;
  bool congestion_experienced = false;  ///< ECN was 3 on arrival.
};

}  // namespace uroce::wire
