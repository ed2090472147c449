// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/port/host_link.h"

#include <algorithm>

#include "pipeline/wire/layout.h"

namespace uroce::datapath {
namespace {

constexpr uint16_t kEtherTypeArp = 0x0806;
constexpr uint8_t kProtocolHopByHop = 0;
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kProtocolIgmp = 2;
constexpr uint8_t kProtocolIcmpv6 = 58;

bool IsTo(std::span<const uint8_t> frame, const Mac& mac) {
  if (frame.size() < sizeof(wire::EthernetHeader)) return false;
  return (frame[0] & 1) != 0 || std::equal(mac.begin(), mac.end(), frame.begin());
}

// Whether decoding failed for a reason that does not say that a frame is RoCE: a fragment or a
// packet with options may be of any protocol.
bool MayBeOthers(wire::DecodeResult result) {
  return wire::ClassOf(result) == wire::DecodeClass::kNotRoce ||
         result == wire::DecodeResult::kIpOptions || result == wire::DecodeResult::kFragment;
}

}  // namespace

bool HostLink::Offer(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac) {
  if (!Wants(result, frame, mac)) return false;
  Hand(frame);
  return true;
}

bool HostLink::Wants(wire::DecodeResult result, std::span<const uint8_t> frame,
                     const Mac& mac) const {
  if (!MayBeOthers(result) || !IsTo(frame, mac)) return false;
  return takes_ == Takes::kEverything || IsHostProtocol(frame);
}

bool IsHostProtocol(std::span<const uint8_t> frame) {
  size_t at = sizeof(wire::EthernetHeader);
  if (frame.size() < at) return false;
  uint16_t ether_type = static_cast<uint16_t>(frame[at - 2] << 8 | frame[at - 1]);
  if (ether_type == wire::kEtherTypeVlan) {
    at += sizeof(wire::VlanTag);
    if (frame.size() < at) return false;
    ether_type = static_cast<uint16_t>(frame[at - 2] << 8 | frame[at - 1]);
  }
  if (ether_type == kEtherTypeArp) return true;
  if (ether_type == wire::kEtherTypeIpv4) {
    at += offsetof(wire::Ipv4Header, protocol);
    if (at >= frame.size()) return false;
    return frame[at] == kProtocolIcmp || frame[at] == kProtocolIgmp;
  }
  if (ether_type != wire::kEtherTypeIpv6) return false;
  at += offsetof(wire::Ipv6Header, next_header);
  if (at >= frame.size()) return false;
  return frame[at] == kProtocolIcmpv6 || frame[at] == kProtocolHopByHop;
}

}  // namespace uroce::datapath
