// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/input/packet_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "pipeline/wire/icrc.h"

namespace uroce::tools::analyze {
namespace {

using Bytes = std::span<const uint8_t>;

// Link types (pcap-linktype(7)).
constexpr uint16_t kLinkEthernet = 1;
constexpr uint16_t kLinkRaw = 101;
constexpr uint16_t kLinkSll = 113;
constexpr uint16_t kLinkIpv4 = 228;
constexpr uint16_t kLinkIpv6 = 229;
constexpr uint16_t kLinkSll2 = 276;

constexpr uint16_t kEtherTypeServiceVlan = 0x88a8;
constexpr uint16_t kEtherTypeFormerServiceVlan = 0x9100;
constexpr uint16_t kEtherTypeMacControl = 0x8808;
constexpr uint16_t kEtherTypeBridging = 0x6558;  // Ethernet in GRE.
constexpr uint8_t kIpProtocolGre = 47;
constexpr uint16_t kVxlanPort = 4789;
constexpr size_t kVxlanBytes = 8;
constexpr int kMostLayers = 8;
constexpr uint32_t kMostPacketBytes = 4096 + 128;  // Of the largest path MTU, with all headers.

uint16_t Load16(Bytes bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

/// Where the headers of one layer end and which protocol follows.
struct Layer {
  size_t offset = 0;
  uint16_t ether_type = 0;
};

bool IsIp(uint16_t ether_type) {
  return ether_type == wire::kEtherTypeIpv4 || ether_type == wire::kEtherTypeIpv6;
}

bool IsVlan(uint16_t ether_type) {
  return ether_type == wire::kEtherTypeVlan || ether_type == kEtherTypeServiceVlan ||
         ether_type == kEtherTypeFormerServiceVlan;
}

/// Behind the MAC addresses and all tags.
std::optional<Layer> BehindEthernet(Bytes bytes, size_t at) {
  Layer layer{at + sizeof(wire::EthernetHeader), 0};
  if (bytes.size() < layer.offset) return std::nullopt;
  layer.ether_type = Load16(bytes, layer.offset - 2);
  for (int tags = 0; IsVlan(layer.ether_type) && tags < kMostLayers; ++tags) {
    layer.offset += sizeof(wire::VlanTag);
    if (bytes.size() < layer.offset) return std::nullopt;
    layer.ether_type = Load16(bytes, layer.offset - 2);
  }
  return layer;
}

uint16_t EtherTypeOfIp(Bytes bytes, size_t at) {
  if (bytes.size() <= at) return 0;
  return bytes[at] >> 4 == 6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4;
}

Direction DirectionOfSll(unsigned packet_type) {
  return packet_type == 4 ? Direction::kOutbound : Direction::kInbound;
}

/// Behind the link layer. Sets what a frame of "any" says of its interface.
std::optional<Layer> BehindLink(const FileFrame& frame, CapturedPacket& captured) {
  const Bytes bytes = frame.bytes;
  switch (frame.link_type) {
    case kLinkEthernet:
      return BehindEthernet(bytes, 0);
    case kLinkRaw:
    case kLinkIpv4:
    case kLinkIpv6:
    case 12:  // Raw IP, as some systems write it.
      return Layer{0, EtherTypeOfIp(bytes, 0)};
    case kLinkSll:
      if (bytes.size() < 16) return std::nullopt;
      captured.direction = DirectionOfSll(Load16(bytes, 0));
      return Layer{16, Load16(bytes, 14)};
    case kLinkSll2:
      if (bytes.size() < 20) return std::nullopt;
      captured.direction = DirectionOfSll(bytes[10]);
      captured.inner_interface = uint32_t{Load16(bytes, 4)} << 16 | Load16(bytes, 6);
      return Layer{20, Load16(bytes, 0)};
    default:
      return std::nullopt;
  }
}

/// Behind the GRE header at `at`.
std::optional<Layer> BehindGre(Bytes bytes, size_t at) {
  if (bytes.size() < at + 4) return std::nullopt;
  const uint16_t flags = Load16(bytes, at);
  const uint16_t protocol = Load16(bytes, at + 2);
  // Checksum, key and sequence number are each four bytes long, if there.
  const size_t behind = at + 4 + ((flags & 0x8000) != 0 ? 4 : 0) + ((flags & 0x2000) != 0 ? 4 : 0) +
                        ((flags & 0x1000) != 0 ? 4 : 0);
  if (protocol == kEtherTypeBridging) return BehindEthernet(bytes, behind);
  return Layer{behind, protocol};
}

/// Behind a tunnel whose outer IP header stands at `layer`, if it is one.
std::optional<Layer> BehindTunnel(Bytes bytes, const Layer& layer) {
  const bool is_ipv6 = layer.ether_type == wire::kEtherTypeIpv6;
  const size_t header =
      is_ipv6 ? sizeof(wire::Ipv6Header)
              : (bytes.size() > layer.offset ? size_t{bytes[layer.offset] & 0xfu} * 4 : 0);
  const size_t behind = layer.offset + header;
  if (bytes.size() < behind + 4 || header < sizeof(wire::Ipv4Header)) return std::nullopt;
  const uint8_t protocol = bytes[layer.offset + (is_ipv6 ? 6 : 9)];
  if (protocol == kIpProtocolGre) return BehindGre(bytes, behind);
  if (protocol != wire::kIpProtocolUdp || Load16(bytes, behind + 2) != kVxlanPort) {
    return std::nullopt;
  }
  return BehindEthernet(bytes, behind + sizeof(wire::UdpHeader) + kVxlanBytes);
}

/// The bytes of the IP packet that its header tells; 0 if the header is cut.
size_t IpBytes(Bytes ip, uint16_t ether_type) {
  if (ether_type == wire::kEtherTypeIpv4) return ip.size() < 4 ? 0 : Load16(ip, 2);
  return ip.size() < 6 ? 0 : sizeof(wire::Ipv6Header) + Load16(ip, 4);
}

bool IsRocePort(Bytes ip, uint16_t ether_type) {
  const size_t udp = ether_type == wire::kEtherTypeIpv4 ? 20 : 40;
  if (ip.size() < udp + 4) return false;
  const uint8_t protocol = ether_type == wire::kEtherTypeIpv4 ? ip[9] : ip[6];
  return protocol == wire::kIpProtocolUdp && Load16(ip, udp + 2) == wire::kRoceUdpPort;
}

/// Whether the bytes of a cut frame reach behind the extended headers.
bool HoldsHeaders(const CapturedPacket& captured, size_t held_bytes) {
  const wire::OpcodeInfo& info = wire::InfoOf(captured.packet.header.opcode);
  return captured.view.bth_offset + size_t{info.header_bytes} <= held_bytes;
}

}  // namespace

Bytes PacketReader::Copy(Bytes from_ip, size_t whole_bytes, uint16_t ether_type) {
  constexpr size_t kEthernet = sizeof(wire::EthernetHeader);
  memset(room_.data(), 0, kEthernet - 2);
  room_[kEthernet - 2] = static_cast<uint8_t>(ether_type >> 8);
  room_[kEthernet - 1] = static_cast<uint8_t>(ether_type);
  const size_t held = std::min(from_ip.size(), room_.size() - kEthernet);
  memcpy(room_.data() + kEthernet, from_ip.data(), held);
  whole_bytes = std::min(whole_bytes, room_.size() - kEthernet);
  return Bytes(room_).first(kEthernet + std::max(held, whole_bytes));
}

void PacketReader::DecodeAt(Bytes bytes, size_t ip, uint16_t ether_type, CapturedPacket& captured) {
  const Bytes from_ip = bytes.subspan(std::min(ip, bytes.size()));
  if (!IsRocePort(from_ip, ether_type)) return;
  const size_t ip_bytes = IpBytes(from_ip, ether_type);
  captured.is_cut = from_ip.size() < ip_bytes;
  // Ethernet with one tag at most is decoded in place.
  const bool in_place = !captured.is_cut && ip >= 14 &&
                        (ip == 14 || (ip == 18 && Load16(bytes, 12) == wire::kEtherTypeVlan));
  captured.frame =
      in_place && bytes.size() == ip + from_ip.size() ? bytes : Copy(from_ip, ip_bytes, ether_type);
  const size_t held = captured.is_cut ? 14 + from_ip.size() : captured.frame.size();
  captured.decode = wire::Decode(captured.frame, captured.packet, captured.view);
  if (wire::ClassOf(captured.decode) == wire::DecodeClass::kNotRoce) return;
  captured.kind = FrameKind::kMalformed;
  const size_t bth_end = 14 + (ether_type == wire::kEtherTypeIpv4 ? 20 : 40) + 8 + 12;
  if (held < bth_end) captured.kind = FrameKind::kCut;
  if (ip_bytes > kMostPacketBytes) captured.kind = FrameKind::kOffloaded;
  if (captured.decode != wire::DecodeResult::kOk || captured.kind != FrameKind::kMalformed) return;
  captured.kind = HoldsHeaders(captured, held) ? FrameKind::kRoce : FrameKind::kCut;
  Finish(captured);
}

void PacketReader::Finish(CapturedPacket& captured) const {
  const uint8_t* const ip = captured.frame.data() + captured.view.ip_offset;
  const uint8_t* const udp = captured.frame.data() + captured.view.bth_offset - 8;
  captured.source_port = static_cast<uint16_t>(udp[0] << 8 | udp[1]);
  captured.traffic_class =
      captured.view.is_ipv6 ? static_cast<uint8_t>((ip[0] & 0xf) << 4 | ip[1] >> 4) : ip[1];
  captured.identification =
      captured.view.is_ipv6 ? uint16_t{0} : static_cast<uint16_t>(ip[4] << 8 | ip[5]);
  if (captured.is_cut) return;
  memcpy(&captured.icrc_bytes, captured.frame.data() + captured.view.icrc_offset, 4);
  captured.icrc =
      wire::IcrcIsRight(captured.frame, captured.view) ? IcrcState::kRight : IcrcState::kWrong;
}

void PacketReader::Read(const FileFrame& frame, CapturedPacket& captured) {
  captured.number = frame.number;
  captured.time_ns = frame.time_ns;
  captured.direction = frame.direction;
  captured.wire_bytes = frame.wire_bytes;
  captured.kind = FrameKind::kOther;
  captured.decode = wire::DecodeResult::kOk;
  captured.icrc = IcrcState::kUnknown;
  captured.icrc_bytes = 0;
  captured.is_cut = false;
  captured.inner_interface = 0;
  std::optional<Layer> layer = BehindLink(frame, captured);
  if (layer && layer->ether_type == kEtherTypeMacControl) captured.kind = FrameKind::kPause;
  for (int layers = 0; layer && IsIp(layer->ether_type) && layers < kMostLayers; ++layers) {
    DecodeAt(frame.bytes, layer->offset, layer->ether_type, captured);
    if (captured.kind != FrameKind::kOther) return;
    layer = BehindTunnel(frame.bytes, *layer);
  }
}

}  // namespace uroce::tools::analyze
