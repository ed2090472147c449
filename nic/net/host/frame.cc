// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/frame.h"

#include <algorithm>

#include "nic/net/address.h"
#include "pipeline/wire/packet.h"

namespace uroce::nic {
namespace {

constexpr uint16_t kVlanIdMask = 0xfff;
constexpr uint16_t kDoNotFragment = 0x4000;
constexpr uint16_t kMoreFragmentsOrOffset = 0x3fff;
constexpr uint8_t kVersion = 0x40;
constexpr uint8_t kVersionAndLength = kVersion | sizeof(wire::Ipv4Header) / 4;
constexpr RouterAlertOption kRouterAlert{0x94, 4, 0, 0};
constexpr uint8_t kInternetworkControl = 0xc0;
constexpr uint8_t kTtl = 64;
constexpr uint32_t kIpv6Version = 6u << 28;
constexpr uint8_t kIpProtocolFragment = 44;

Gid MappedGid(const std::array<uint8_t, 4>& address) {
  Gid gid = Ipv4Gid(0);
  std::copy(address.begin(), address.end(), gid.bytes.begin() + 12);
  return gid;
}

template <typename Layout>
Bytes BytesOf(const Layout& layout) {
  return {reinterpret_cast<const uint8_t*>(&layout), sizeof(layout)};
}

// The checksum is left 0.
wire::Ipv4Header MakeIpv4(const Gid& source, const Gid& destination, uint8_t protocol,
                          size_t payload_bytes) {
  wire::Ipv4Header header{};
  header.version_ihl = kVersionAndLength;
  header.total_length = Be<2>(static_cast<uint16_t>(sizeof(header) + payload_bytes));
  header.fragment = Be<2>(kDoNotFragment);
  header.ttl = kTtl;
  header.protocol = protocol;
  header.source = Ipv4Bytes(source);
  header.destination = Ipv4Bytes(destination);
  return header;
}

// MLD queries have a router alert option in front (RFC 3810, 5).
FrameResult SkipHopByHop(IpView& view) {
  if (view.protocol != kIpProtocolHopByHop) return FrameResult::kTaken;
  if (view.payload.size() < sizeof(RouterAlertLayout)) return FrameResult::kTruncated;
  const auto header = Load<RouterAlertLayout>(view.payload);
  const size_t bytes = (size_t{header.length} + 1) * 8;
  if (bytes > view.payload.size()) return FrameResult::kTruncated;
  view.protocol = header.next_header;
  view.payload = view.payload.subspan(bytes);
  return FrameResult::kTaken;
}

}  // namespace

std::array<uint8_t, 4> Ipv4Bytes(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

uint16_t InternetChecksum(std::span<const uint8_t> bytes) {
  return wire::ChecksumOfSum(wire::SumOfWords(bytes));
}

uint16_t Icmpv6Checksum(const Gid& source, const Gid& destination,
                        std::span<const uint8_t> message) {
  using wire::SumOfWords;
  return wire::ChecksumOfSum(SumOfWords(source.bytes) + SumOfWords(destination.bytes) +
                             message.size() + kIpProtocolIcmpv6 + SumOfWords(message));
}

FrameResult ParseEthernet(Bytes frame, EthernetView& view) {
  if (frame.size() < sizeof(wire::EthernetHeader)) return FrameResult::kTruncated;
  const auto header = Load<wire::EthernetHeader>(frame);
  view.destination = header.destination;
  view.source = header.source;
  view.vlan_id = 0;
  view.ether_type = header.ether_type.value();
  view.payload = frame.subspan(sizeof(header));
  if (view.ether_type != wire::kEtherTypeVlan) return FrameResult::kTaken;
  if (view.payload.size() < sizeof(wire::VlanTag)) return FrameResult::kTruncated;
  const auto tag = Load<wire::VlanTag>(view.payload);
  view.vlan_id = tag.tci.value() & kVlanIdMask;
  view.ether_type = tag.ether_type.value();
  view.payload = view.payload.subspan(sizeof(tag));
  return FrameResult::kTaken;
}

FrameResult ParseIpv4(Bytes packet, IpView& view) {
  if (packet.size() < sizeof(wire::Ipv4Header)) return FrameResult::kTruncated;
  const auto header = Load<wire::Ipv4Header>(packet);
  const size_t header_bytes = size_t{header.version_ihl & 0xfu} * 4;
  if ((header.version_ihl & 0xf0) != kVersion || header_bytes < sizeof(header)) {
    return FrameResult::kBadHeader;
  }
  if (header_bytes > packet.size()) return FrameResult::kTruncated;
  if (InternetChecksum(packet.first(header_bytes)) != 0) return FrameResult::kBadChecksum;
  const size_t length = header.total_length.value();
  if (length < header_bytes || length > packet.size()) return FrameResult::kTruncated;
  if ((header.fragment.value() & kMoreFragmentsOrOffset) != 0) return FrameResult::kFragment;
  view.source = MappedGid(header.source);
  view.destination = MappedGid(header.destination);
  view.protocol = header.protocol;
  view.hop_limit = header.ttl;
  view.has_options = header_bytes != sizeof(header);
  view.payload = packet.first(length).subspan(header_bytes);
  return FrameResult::kTaken;
}

FrameResult ParseIpv6(Bytes packet, IpView& view) {
  if (packet.size() < sizeof(wire::Ipv6Header)) return FrameResult::kTruncated;
  const auto header = Load<wire::Ipv6Header>(packet);
  if (header.version_class_flow.value() >> 28 != 6) return FrameResult::kBadHeader;
  const size_t length = header.payload_length.value();
  if (sizeof(header) + length > packet.size()) return FrameResult::kTruncated;
  view.source.bytes = header.source;
  view.destination.bytes = header.destination;
  // ::ffff:a.b.c.d would be treated as IPv4 from here on.
  if (view.source.is_ipv4() || view.destination.is_ipv4()) return FrameResult::kBadAddress;
  view.protocol = header.next_header;
  view.hop_limit = header.hop_limit;
  view.payload = packet.subspan(sizeof(header), length);
  if (view.protocol == kIpProtocolFragment) return FrameResult::kFragment;
  return SkipHopByHop(view);
}

FrameWriter::FrameWriter(const Link& link, uint16_t ether_type) {
  frame_.reserve(128);
  const bool tagged = link.vlan_id != 0;
  Add(wire::EthernetHeader{link.destination, link.source,
                           Be<2>(tagged ? wire::kEtherTypeVlan : ether_type)});
  if (tagged) Add(wire::VlanTag{Be<2>(link.vlan_id), Be<2>(ether_type)});
}

void FrameWriter::AddIpv4(const Gid& source, const Gid& destination, uint8_t protocol,
                          size_t payload_bytes) {
  wire::Ipv4Header header = MakeIpv4(source, destination, protocol, payload_bytes);
  header.checksum = Be<2>(InternetChecksum(BytesOf(header)));
  Add(header);
}

void FrameWriter::AddIpv4WithRouterAlert(const Gid& source, const Gid& destination,
                                         uint8_t protocol, uint8_t ttl, size_t payload_bytes) {
  struct {
    wire::Ipv4Header ip;
    RouterAlertOption option = kRouterAlert;
  } header;
  header.ip = MakeIpv4(source, destination, protocol, sizeof(RouterAlertOption) + payload_bytes);
  header.ip.version_ihl = kVersion | sizeof(header) / 4;
  header.ip.traffic_class = kInternetworkControl;
  header.ip.ttl = ttl;
  header.ip.checksum = Be<2>(InternetChecksum(BytesOf(header)));
  Add(header);
}

void FrameWriter::AddIpv6(const Gid& source, const Gid& destination, uint8_t protocol,
                          uint8_t hop_limit, size_t payload_bytes) {
  wire::Ipv6Header header{};
  header.version_class_flow = Be<4>(kIpv6Version);
  header.payload_length = Be<2>(static_cast<uint16_t>(payload_bytes));
  header.next_header = protocol;
  header.hop_limit = hop_limit;
  header.source = source.bytes;
  header.destination = destination.bytes;
  Add(header);
}

void FrameWriter::AddIcmpv6(const Gid& source, const Gid& destination, Bytes message) {
  const size_t start = frame_.size();
  AddBytes(message);
  auto header = Load<IcmpLayout>(frame_, start);
  header.checksum = Be<2>(0);
  std::memcpy(frame_.data() + start, &header, sizeof(header));
  header.checksum = Be<2>(Icmpv6Checksum(source, destination, Bytes(frame_).subspan(start)));
  std::memcpy(frame_.data() + start, &header, sizeof(header));
}

Frame FrameWriter::Finish() {
  if (frame_.size() < wire::kMinFrameBytes) frame_.resize(wire::kMinFrameBytes);
  return std::move(frame_);
}

}  // namespace uroce::nic
