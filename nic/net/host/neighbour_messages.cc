// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/neighbour_messages.h"

#include <algorithm>

#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr uint16_t kEthernet = 1;
constexpr uint16_t kRequest = 1;
constexpr uint16_t kReply = 2;

Gid ToGid(const std::array<uint8_t, 4>& address) {
  Gid gid = Ipv4Gid(0);
  std::copy(address.begin(), address.end(), gid.bytes.begin() + 12);
  return gid;
}

std::array<uint8_t, 4> ToBytes(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

constexpr uint8_t kSourceMac = 1;
constexpr uint8_t kTargetMac = 2;
constexpr uint32_t kSolicited = 1u << 30;
constexpr uint32_t kOverride = 1u << 29;

// Finds the first option of `type`; others are skipped (RFC 4861, 4.6).
FrameResult FindMacOption(Bytes options, uint8_t type, std::optional<Mac>& mac) {
  while (!options.empty()) {
    if (options.size() < 2) return FrameResult::kTruncated;
    const size_t bytes = size_t{options[1]} * 8;
    if (bytes == 0) return FrameResult::kBadHeader;
    if (bytes > options.size()) return FrameResult::kTruncated;
    if (options[0] == type && bytes == sizeof(MacOptionLayout) && !mac) {
      mac = Load<MacOptionLayout>(options).mac;
      if (!IsUnicast(*mac)) return FrameResult::kBadAddress;
    }
    options = options.subspan(bytes);
  }
  return FrameResult::kTaken;
}

// The checks that both messages share.
FrameResult CheckCommon(const IpView& ip, NeighbourLayout& layout) {
  if (ip.hop_limit != kNdpHopLimit) return FrameResult::kBadHeader;
  if (ip.payload.size() < sizeof(layout)) return FrameResult::kTruncated;
  layout = Load<NeighbourLayout>(ip.payload);
  if (layout.icmp.code != 0) return FrameResult::kBadHeader;
  return IsUnicast(Gid{layout.target}) ? FrameResult::kTaken : FrameResult::kBadAddress;
}

Frame MakeMessage(uint8_t type, uint32_t flags, const Gid& source, const Gid& destination,
                  const Gid& target, std::optional<MacOptionLayout> option, const Link& link) {
  NeighbourLayout layout{};
  layout.icmp.type = type;
  layout.flags = Be<4>(flags);
  layout.target = target.bytes;
  uint8_t bytes[sizeof(layout) + sizeof(*option)];
  std::memcpy(bytes, &layout, sizeof(layout));
  if (option) std::memcpy(bytes + sizeof(layout), &*option, sizeof(*option));
  const size_t length = sizeof(layout) + (option ? sizeof(*option) : 0);
  FrameWriter writer(link, wire::kEtherTypeIpv6);
  writer.AddIpv6(source, destination, kIpProtocolIcmpv6, kNdpHopLimit, length);
  writer.AddIcmpv6(source, destination, {bytes, length});
  return writer.Finish();
}

std::optional<MacOptionLayout> Option(uint8_t type, const std::optional<Mac>& mac) {
  if (!mac) return std::nullopt;
  return MacOptionLayout{type, sizeof(MacOptionLayout) / 8, *mac};
}

}  // namespace

FrameResult ParseArp(Bytes payload, ArpPacket& packet) {
  if (payload.size() < sizeof(ArpLayout)) return FrameResult::kTruncated;
  const auto layout = Load<ArpLayout>(payload);
  if (layout.hardware_type.value() != kEthernet ||
      layout.protocol_type.value() != wire::kEtherTypeIpv4 ||
      layout.hardware_bytes != sizeof(Mac) || layout.protocol_bytes != 4) {
    return FrameResult::kBadHeader;
  }
  const uint16_t operation = layout.operation.value();
  if (operation != kRequest && operation != kReply) return FrameResult::kBadHeader;
  packet = {.is_request = operation == kRequest,
            .sender_mac = layout.sender_mac,
            .sender = ToGid(layout.sender),
            .target_mac = layout.target_mac,
            .target = ToGid(layout.target)};
  if (!IsUnicast(packet.sender_mac)) return FrameResult::kBadAddress;
  if (!IsArpProbe(packet) && !IsUnicast(packet.sender)) return FrameResult::kBadAddress;
  return FrameResult::kTaken;
}

Frame MakeArp(const ArpPacket& packet, const Link& link) {
  FrameWriter writer(link, kEtherTypeArp);
  writer.Add(ArpLayout{.hardware_type = Be<2>(kEthernet),
                       .protocol_type = Be<2>(wire::kEtherTypeIpv4),
                       .hardware_bytes = sizeof(Mac),
                       .protocol_bytes = 4,
                       .operation = Be<2>(packet.is_request ? kRequest : kReply),
                       .sender_mac = packet.sender_mac,
                       .sender = ToBytes(packet.sender),
                       .target_mac = packet.target_mac,
                       .target = ToBytes(packet.target)});
  return writer.Finish();
}

bool IsArpProbe(const ArpPacket& packet) { return packet.sender == Ipv4Gid(0); }

FrameResult ParseSolicitation(const IpView& ip, NeighbourSolicitation& solicitation) {
  NeighbourLayout layout;
  FrameResult result = CheckCommon(ip, layout);
  if (result != FrameResult::kTaken) return result;
  solicitation = {ip.source, ip.destination, {layout.target}, std::nullopt};
  result = FindMacOption(ip.payload.subspan(sizeof(layout)), kSourceMac, solicitation.source_mac);
  if (result != FrameResult::kTaken) return result;
  if (ip.source != Gid{}) {
    return IsUnicast(ip.source) ? FrameResult::kTaken : FrameResult::kBadAddress;
  }
  const bool to_group = ip.destination == SolicitedNodeGroup(solicitation.target);
  return to_group && !solicitation.source_mac ? FrameResult::kTaken : FrameResult::kBadAddress;
}

FrameResult ParseAdvertisement(const IpView& ip, NeighbourAdvertisement& advertisement) {
  NeighbourLayout layout;
  FrameResult result = CheckCommon(ip, layout);
  if (result != FrameResult::kTaken) return result;
  const uint32_t flags = layout.flags.value();
  advertisement = {.source = ip.source,
                   .destination = ip.destination,
                   .target = {layout.target},
                   .solicited = (flags & kSolicited) != 0,
                   .overrides = (flags & kOverride) != 0,
                   .target_mac = std::nullopt};
  if (advertisement.solicited && IsMulticast(ip.destination)) return FrameResult::kBadHeader;
  if (!IsUnicast(ip.source)) return FrameResult::kBadAddress;
  return FindMacOption(ip.payload.subspan(sizeof(layout)), kTargetMac, advertisement.target_mac);
}

Frame MakeSolicitation(const NeighbourSolicitation& solicitation, const Link& link) {
  return MakeMessage(kIcmpv6NeighbourSolicitation, 0, solicitation.source, solicitation.destination,
                     solicitation.target, Option(kSourceMac, solicitation.source_mac), link);
}

Frame MakeAdvertisement(const NeighbourAdvertisement& advertisement, const Link& link) {
  const uint32_t flags =
      (advertisement.solicited ? kSolicited : 0) | (advertisement.overrides ? kOverride : 0);
  return MakeMessage(kIcmpv6NeighbourAdvertisement, flags, advertisement.source,
                     advertisement.destination, advertisement.target,
                     Option(kTargetMac, advertisement.target_mac), link);
}

Gid SolicitedNodeGroup(const Gid& address) {
  Gid group{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff, 0, 0, 0}};
  std::copy(address.bytes.begin() + 13, address.bytes.end(), group.bytes.begin() + 13);
  return group;
}

}  // namespace uroce::nic
