// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/arp.h"

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

}  // namespace uroce::nic
