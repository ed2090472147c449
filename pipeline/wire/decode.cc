// SPDX-License-Identifier: Apache-2.0
// Decodes an Ethernet frame into a wire::Packet, once, on arrival. All later code relies on the
// checks that are made here.
#include "pipeline/wire/decode.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "pipeline/wire/packet.h"

namespace uroce::wire {

// Decodes a frame layer by layer, directly into the caller's packet.

namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint8_t kEcnMask = 3;
constexpr uint8_t kCongestionExperienced = 3;
constexpr uint16_t kMoreFragmentsOrOffset = 0x3fff;

/// The state that one layer passes to the next. Offsets count from the start of the frame.
struct Cursor {
  uint32_t offset = 0;
  uint32_t end = 0;  ///< End of the bytes that the IP length covers.
  uint16_t ether_type = 0;
};

/// The header at `offset`, read in place: layouts consist of bytes, at any alignment. Copying whole
/// headers would cost more than reading their fields.
template <typename Layout>
const Layout& View(Bytes frame, uint32_t offset) {
  return *reinterpret_cast<const Layout*>(frame.data() + offset);
}

bool Holds(Bytes frame, uint32_t offset, uint32_t bytes) { return offset + bytes <= frame.size(); }

/// The folded sum of the ten words of an IPv4 header; 0xffff when its checksum is right. One's
/// complement addition is independent of the byte order.
uint32_t Ipv4Sum(const uint8_t* header) {
  uint64_t words[2];
  uint32_t last;
  std::memcpy(words, header, sizeof words);
  std::memcpy(&last, header + sizeof words, sizeof last);
  uint64_t sum = (words[0] & 0xffffffff) + (words[0] >> 32) + (words[1] & 0xffffffff) +
                 (words[1] >> 32) + last;
  sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>((sum & 0xffff) + (sum >> 16));
}

DecodeResult DecodeEthernet(Bytes frame, Cursor& cursor, FrameView& view) {
  if (!Holds(frame, 0, sizeof(EthernetHeader))) return DecodeResult::kNotIp;
  const auto& ethernet = View<EthernetHeader>(frame, 0);
  view.destination = ethernet.destination;
  view.vlan_tci = 0;
  cursor.ether_type = ethernet.ether_type.value();
  cursor.offset = sizeof(EthernetHeader);
  if (cursor.ether_type != kEtherTypeVlan) return DecodeResult::kOk;
  if (!Holds(frame, cursor.offset, sizeof(VlanTag))) return DecodeResult::kNotIp;
  const auto& tag = View<VlanTag>(frame, cursor.offset);
  view.vlan_tci = tag.tci.value();
  cursor.ether_type = tag.ether_type.value();
  cursor.offset += sizeof(VlanTag);
  return DecodeResult::kOk;
}

/// Writes ::ffff:a.b.c.d as two words: after writes of single bytes every reader of the whole
/// would have to wait until they are merged.
void SetMapped(Gid& gid, const std::array<uint8_t, 4>& address) {
  constexpr uint64_t kPrefix = 0xffff0000;  // The bytes 00 00 ff ff in front of the address.
  const uint64_t halves[2] = {0, kPrefix | uint64_t{std::bit_cast<uint32_t>(address)} << 32};
  static_assert(sizeof halves == sizeof gid.bytes);
  std::memcpy(gid.bytes.data(), halves, sizeof halves);
}

DecodeResult DecodeIpv4(Bytes frame, Cursor& cursor, Packet& packet) {
  if (!Holds(frame, cursor.offset, sizeof(Ipv4Header))) return DecodeResult::kTruncated;
  const auto& ip = View<Ipv4Header>(frame, cursor.offset);
  if (ip.version_ihl >> 4 != 4) return DecodeResult::kBadIpVersion;
  if (ip.protocol != kIpProtocolUdp) return DecodeResult::kNotUdp;
  if (ip.version_ihl != 0x45) return DecodeResult::kIpOptions;
  if ((ip.fragment.value() & kMoreFragmentsOrOffset) != 0) return DecodeResult::kFragment;
  if (Ipv4Sum(frame.data() + cursor.offset) != 0xffff) return DecodeResult::kBadIpChecksum;
  cursor.end = cursor.offset + ip.total_length.value();
  cursor.offset += sizeof(Ipv4Header);
  SetMapped(packet.source, ip.source);
  SetMapped(packet.destination, ip.destination);
  packet.congestion_experienced = (ip.traffic_class & kEcnMask) == kCongestionExperienced;
  return DecodeResult::kOk;
}

DecodeResult DecodeIpv6(Bytes frame, Cursor& cursor, Packet& packet) {
  if (!Holds(frame, cursor.offset, sizeof(Ipv6Header))) return DecodeResult::kTruncated;
  const auto& ip = View<Ipv6Header>(frame, cursor.offset);
  const uint32_t version_class_flow = ip.version_class_flow.value();
  if (version_class_flow >> 28 != 6) return DecodeResult::kBadIpVersion;
  if (ip.next_header != kIpProtocolUdp) return DecodeResult::kNotUdp;
  cursor.offset += sizeof(Ipv6Header);
  cursor.end = cursor.offset + ip.payload_length.value();
  packet.source.bytes = ip.source;
  packet.destination.bytes = ip.destination;
  if (packet.source.is_ipv4() || packet.destination.is_ipv4()) return DecodeResult::kMappedAddress;
  packet.congestion_experienced = (version_class_flow >> 20 & kEcnMask) == kCongestionExperienced;
  return DecodeResult::kOk;
}

DecodeResult DecodeIp(Bytes frame, Cursor& cursor, Packet& packet, FrameView& view) {
  view.ip_offset = static_cast<uint8_t>(cursor.offset);
  view.is_ipv6 = cursor.ether_type == kEtherTypeIpv6;
  if (view.is_ipv6) return DecodeIpv6(frame, cursor, packet);
  if (cursor.ether_type == kEtherTypeIpv4) return DecodeIpv4(frame, cursor, packet);
  return DecodeResult::kNotIp;
}

/// IP and UDP both give the length. A packet in which they differ is refused. The frame may be
/// longer: Ethernet pads to 60 bytes.
DecodeResult DecodeUdp(Bytes frame, Cursor& cursor, FrameView& view) {
  if (!Holds(frame, cursor.offset, sizeof(UdpHeader))) return DecodeResult::kTruncated;
  const auto& udp = View<UdpHeader>(frame, cursor.offset);
  if (udp.destination_port.value() != kRoceUdpPort) return DecodeResult::kNotRocePort;
  const uint32_t length = udp.length.value();
  if (cursor.offset + length != cursor.end) return DecodeResult::kBadUdpLength;
  if (length < sizeof(UdpHeader) + sizeof(BthLayout) + kIcrcBytes) {
    return DecodeResult::kBadUdpLength;
  }
  if (cursor.end > frame.size()) return DecodeResult::kTruncated;
  cursor.offset += sizeof(UdpHeader);
  view.bth_offset = static_cast<uint8_t>(cursor.offset);
  view.icrc_offset = static_cast<uint16_t>(cursor.end - kIcrcBytes);
  return DecodeResult::kOk;
}

Reth LoadReth(Bytes frame, uint32_t offset) {
  const auto& layout = View<RethLayout>(frame, offset);
  return {.va = layout.va.value(),
          .rkey = Rkey(layout.rkey.value()),
          .length_bytes = layout.length.value()};
}

AtomicEth LoadAtomicEth(Bytes frame, uint32_t offset) {
  const auto& layout = View<AtomicEthLayout>(frame, offset);
  return {.va = layout.va.value(),
          .rkey = Rkey(layout.rkey.value()),
          .swap_add = layout.swap_add.value(),
          .compare = layout.compare.value()};
}

Deth LoadDeth(Bytes frame, uint32_t offset) {
  const auto& layout = View<DethLayout>(frame, offset);
  return {.qkey = layout.qkey.value(), .source_qpn = Qpn(layout.source_qpn.value())};
}

Aeth LoadAeth(Bytes frame, uint32_t offset) {
  const auto& layout = View<AethLayout>(frame, offset);
  return {.syndrome = layout.syndrome, .msn = layout.msn.value()};
}

uint32_t LoadImmediate(Bytes frame, uint32_t offset) {
  return std::bit_cast<uint32_t>(View<ImmDtLayout>(frame, offset).bytes);
}

/// Reads the extended headers that `info` lists, in wire order. The caller has checked the length.
void DecodeExtendedHeaders(Bytes frame, uint32_t offset, const OpcodeInfo& info,
                           TransportHeader& header) {
  if (info.headers == 0) return;
  if (info.Has(OpcodeInfo::kDeth)) {
    header.deth = LoadDeth(frame, offset);
    offset += sizeof(DethLayout);
  }
  if (info.Has(OpcodeInfo::kXrceth)) {
    header.xrc_srqn = View<XrcethLayout>(frame, offset).srqn.value();
    offset += sizeof(XrcethLayout);
  }
  if (info.Has(OpcodeInfo::kReth)) {
    header.reth = LoadReth(frame, offset);
    offset += sizeof(RethLayout);
  }
  if (info.Has(OpcodeInfo::kAtomicEth)) header.atomic = LoadAtomicEth(frame, offset);
  if (info.Has(OpcodeInfo::kAeth)) {
    header.aeth = LoadAeth(frame, offset);
    offset += sizeof(AethLayout);
  }
  if (info.Has(OpcodeInfo::kAtomicAckEth)) {
    header.atomic_original = View<AtomicAckEthLayout>(frame, offset).original.value();
  }
  if (info.Has(OpcodeInfo::kImmDt)) header.immediate = LoadImmediate(frame, offset);
  if (info.Has(OpcodeInfo::kIeth)) {
    header.invalidate_rkey = Rkey(View<IethLayout>(frame, offset).rkey.value());
  }
}

/// Checks the body's pad and length. The transport checks whether a payload fits its message, and
/// answers if it does not (docs/protocol/transport.md, section 4.1, step 6).
DecodeResult CheckBody(const OpcodeInfo& info, uint32_t body_bytes, uint32_t pad_bytes) {
  if (body_bytes % 4 != 0 || pad_bytes > body_bytes) return DecodeResult::kBadPad;
  // A response with too many bytes is refused here, because responses are never answered.
  const bool bare_response =
      (info.traits & (OpcodeInfo::kResponse | OpcodeInfo::kPayload | OpcodeInfo::kKeptMap)) ==
      OpcodeInfo::kResponse;
  if (bare_response && body_bytes != 0) return DecodeResult::kBadPayloadLength;
  return DecodeResult::kOk;
}

/// Whether a queue pair refuses the unknown `opcode` with a NAK: reserved operations of a reliable
/// service. Other unknown opcodes are dropped (docs/protocol/wire-format.md, section 5).
bool IsAnswerable(Opcode opcode) {
  if (IsOfManufacturer(opcode)) return false;
  return ServiceOf(opcode) == Service::kRc || ServiceOf(opcode) == Service::kXrc;
}

void DecodeBth(const BthLayout& bth, TransportHeader& header) {
  header.opcode = Opcode{bth.opcode};
  header.solicited = (bth.flags & 0x80) != 0;
  header.ack_request = (bth.ack_request & 0x80) != 0;
  header.host_delay = bth.congestion & kHostDelayMask;
  header.pkey = bth.pkey.value();
  header.dest_qpn = Qpn(bth.dest_qpn.value());
  header.psn = Psn(bth.psn.value());
}

DecodeResult DecodeTransport(Bytes frame, const FrameView& view, Packet& packet) {
  const auto& bth = View<BthLayout>(frame, view.bth_offset);
  if ((bth.flags & 0x0f) != 0) return DecodeResult::kBadBthVersion;
  const OpcodeInfo& info = InfoOf(Opcode{bth.opcode});
  if (!info.Has(OpcodeInfo::kKnown) && !IsAnswerable(Opcode{bth.opcode})) {
    return DecodeResult::kUnknownOpcode;
  }
  const uint32_t body_offset = view.bth_offset + uint32_t{info.header_bytes};
  if (body_offset > view.icrc_offset) return DecodeResult::kBadPayloadLength;
  const uint32_t body_bytes = view.icrc_offset - body_offset;
  const uint32_t pad_bytes = bth.flags >> 4 & 3;
  const DecodeResult result = CheckBody(info, body_bytes, pad_bytes);
  if (result != DecodeResult::kOk) return result;
  DecodeBth(bth, packet.header);
  DecodeExtendedHeaders(frame, view.bth_offset + uint32_t{sizeof bth}, info, packet.header);
  packet.payload = frame.subspan(body_offset, body_bytes - pad_bytes);
  return DecodeResult::kOk;
}

}  // namespace

DecodeResult Decode(Bytes frame, Packet& packet, FrameView& view) {
  Cursor cursor;
  DecodeResult result = DecodeEthernet(frame, cursor, view);
  if (result != DecodeResult::kOk) return result;
  result = DecodeIp(frame, cursor, packet, view);
  if (result != DecodeResult::kOk) return result;
  result = DecodeUdp(frame, cursor, view);
  if (result != DecodeResult::kOk) return result;
  return DecodeTransport(frame, view, packet);
}

DecodeResult DecodeSegment(Bytes frame, Packet& packet, FrameView& view) {
  if (frame.size() < view.bth_offset + sizeof(BthLayout) + kIcrcBytes) {
    return DecodeResult::kBadUdpLength;
  }
  view.icrc_offset = static_cast<uint16_t>(frame.size() - kIcrcBytes);
  return DecodeTransport(frame, view, packet);
}

std::array<uint8_t, 40> GrhArea(std::span<const uint8_t> frame, const FrameView& view) {
  std::array<uint8_t, 40> area{};
  const size_t header_bytes = view.is_ipv6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header);
  const std::span<const uint8_t> header = frame.subspan(view.ip_offset, header_bytes);
  std::ranges::copy(header, area.end() - static_cast<ptrdiff_t>(header_bytes));
  return area;
}

}  // namespace uroce::wire
