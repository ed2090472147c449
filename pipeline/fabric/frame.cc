// SPDX-License-Identifier: Apache-2.0
// Frames in a fabric: the header fields that a switch reads, the ECN mark that it writes, the slots
// that are allocated at the start, and the interface that the fabric's user implements.
#include "pipeline/fabric/frame.h"

#include <algorithm>
#include <cstring>

#include "pipeline/wire/packet.h"

namespace uroce::fabric {
namespace {

using wire::Be;
using wire::EthernetHeader;
using wire::Ipv4Header;
using wire::Ipv6Header;
using wire::VlanTag;

constexpr uint8_t kEcnBits = 3;
constexpr uint8_t kFirstControlPriority = 6;
constexpr uint8_t kIpProtocolTcp = 6;
constexpr uint32_t kIpv6TrafficClassShift = 20;

template <typename Header>
Header Read(std::span<const uint8_t> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

/// The position and type of the data behind the Ethernet header and its tag.
struct Payload {
  uint16_t ether_type = 0;
  uint16_t tci = 0;
  size_t offset = 0;
};

/// Range: `frame` holds at least an Ethernet header.
Payload PayloadOf(std::span<const uint8_t> frame) {
  Payload payload{.ether_type = Read<EthernetHeader>(frame).ether_type.value(),
                  .offset = sizeof(EthernetHeader)};
  const size_t behind_tag = payload.offset + sizeof(VlanTag);
  if (payload.ether_type != wire::kEtherTypeVlan || frame.size() < behind_tag) return payload;
  const auto tag = Read<VlanTag>(frame.subspan(payload.offset));
  return {.ether_type = tag.ether_type.value(), .tci = tag.tci.value(), .offset = behind_tag};
}

/// A hash: eight bytes per step, then a finalizer. All bits of the result depend on all bytes.
class FlowHash {
 public:
  void Add(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      uint64_t word = 0;
      const size_t taken = std::min(bytes.size(), sizeof word);
      std::memcpy(&word, bytes.data(), taken);
      hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
      hash_ ^= hash_ >> 32;
      bytes = bytes.subspan(taken);
    }
  }
  uint32_t value() const {
    const uint64_t mixed = (hash_ ^ (hash_ >> 33)) * 0xff51afd7ed558ccd;
    return static_cast<uint32_t>(mixed >> 32);
  }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

/// Adds protocol and ports. `segment`: the bytes behind the IP header.
void AddPorts(uint8_t protocol, std::span<const uint8_t> segment, FlowHash& hash) {
  constexpr size_t kPorts = 4;
  hash.Add({&protocol, 1});
  const bool has_ports = protocol == wire::kIpProtocolUdp || protocol == kIpProtocolTcp;
  if (has_ports && segment.size() >= kPorts) hash.Add(segment.first(kPorts));
}

void SetTrafficClass(uint8_t traffic_class, FrameHeaders& headers) {
  headers.is_ecn_capable = (traffic_class & kEcnBits) != 0;
  headers.is_control = traffic_class >> 5 >= kFirstControlPriority;
}

bool ReadIpv4(std::span<const uint8_t> packet, FrameHeaders& headers) {
  if (packet.size() < sizeof(Ipv4Header)) return false;
  const auto ip = Read<Ipv4Header>(packet);
  SetTrafficClass(ip.traffic_class, headers);
  FlowHash hash;
  hash.Add(ip.source);
  hash.Add(ip.destination);
  const size_t header_bytes = size_t{ip.version_ihl} % 16 * 4;
  // Later fragments have no ports, so all fragments of a datagram are hashed without ports.
  constexpr uint16_t kFragmented = 0x3fff;
  const bool is_whole = (ip.fragment.value() & kFragmented) == 0 && header_bytes <= packet.size();
  AddPorts(ip.protocol, packet.subspan(is_whole ? header_bytes : packet.size()), hash);
  headers.flow_hash = hash.value();
  return true;
}

bool ReadIpv6(std::span<const uint8_t> packet, FrameHeaders& headers) {
  if (packet.size() < sizeof(Ipv6Header)) return false;
  const auto ip = Read<Ipv6Header>(packet);
  SetTrafficClass(static_cast<uint8_t>(ip.version_class_flow.value() >> kIpv6TrafficClassShift),
                  headers);
  FlowHash hash;
  hash.Add(ip.source);
  hash.Add(ip.destination);
  AddPorts(ip.next_header, packet.subspan(sizeof ip), hash);
  headers.flow_hash = hash.value();
  return true;
}

void ReadOther(std::span<const uint8_t> frame, uint16_t tci, FrameHeaders& headers) {
  FlowHash hash;
  hash.Add(frame.first(2 * sizeof(Mac)));
  headers.flow_hash = hash.value();
  headers.is_control = tci >> 13 >= kFirstControlPriority;
}

bool MarkIpv4(std::span<uint8_t> packet) {
  if (packet.size() < sizeof(Ipv4Header)) return false;
  auto ip = Read<Ipv4Header>(packet);
  const size_t header_bytes = size_t{ip.version_ihl} % 16 * 4;
  if (header_bytes < sizeof ip || header_bytes > packet.size()) return false;
  ip.traffic_class |= kEcnBits;
  ip.checksum = Be<2>(0);
  std::memcpy(packet.data(), &ip, sizeof ip);
  ip.checksum = Be<2>(wire::ChecksumOfSum(wire::SumOfWords(packet.first(header_bytes))));
  std::memcpy(packet.data(), &ip, sizeof ip);
  return true;
}

bool MarkIpv6(std::span<uint8_t> packet) {
  if (packet.size() < sizeof(Ipv6Header)) return false;
  packet[1] |= kEcnBits << 4;  // Bits 21 and 20 of the first four bytes.
  return true;
}

}  // namespace

FrameHeaders ReadHeaders(std::span<const uint8_t> frame) {
  FrameHeaders headers;
  if (frame.size() < sizeof(EthernetHeader)) return headers;
  headers.destination = Read<EthernetHeader>(frame).destination;
  const Payload payload = PayloadOf(frame);
  const std::span<const uint8_t> packet = frame.subspan(payload.offset);
  const bool is_ip = (payload.ether_type == wire::kEtherTypeIpv4 && ReadIpv4(packet, headers)) ||
                     (payload.ether_type == wire::kEtherTypeIpv6 && ReadIpv6(packet, headers));
  if (!is_ip) ReadOther(frame, payload.tci, headers);
  return headers;
}

bool MarkCongestionExperienced(std::span<uint8_t> frame) {
  if (frame.size() < sizeof(EthernetHeader)) return false;
  const Payload payload = PayloadOf(frame);
  const std::span<uint8_t> packet = frame.subspan(payload.offset);
  if (payload.ether_type == wire::kEtherTypeIpv4) return MarkIpv4(packet);
  if (payload.ether_type == wire::kEtherTypeIpv6) return MarkIpv6(packet);
  return false;
}

}  // namespace uroce::fabric
