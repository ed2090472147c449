// SPDX-License-Identifier: Apache-2.0
#include "drivers/udp_socket/identification_guess.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "pipeline/wire/icrc_change.h"
#include "pipeline/wire/layout.h"

namespace uroce::drivers {
namespace {

/// Of source address, source port and destination queue pair. Never 0.
uint32_t FlowKey(std::span<const uint8_t> frame, const wire::UdpFrame& places) {
  wire::Ipv4Header ip;
  wire::UdpHeader udp;
  wire::BthLayout bth;
  std::memcpy(&ip, frame.data() + wire::UdpFrame::kIpOffset, sizeof ip);
  std::memcpy(&udp, frame.data() + places.udp_offset(), sizeof udp);
  std::memcpy(&bth, frame.data() + places.payload_offset, sizeof bth);
  uint32_t source;
  std::memcpy(&source, ip.source.data(), sizeof source);
  uint64_t key = uint64_t{source} << 32 | uint64_t{bth.dest_qpn.value()} << 8;
  key ^= udp.source_port.value();
  key *= 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(key >> 32) | 1;
}

}  // namespace

IdentificationGuess::Found IdentificationGuess::Store(std::span<uint8_t> frame,
                                                      const wire::UdpFrame& places) {
  if (places.is_ipv6) return Found::kExpected;
  if (frame.size() < places.payload_offset + sizeof(wire::BthLayout)) return Found::kDamaged;
  const uint32_t key = FlowKey(frame, places);
  Flow& flow = flows_[(key >> 1) % kFlows];
  const bool is_known = flow.key == key;
  const auto next = static_cast<uint16_t>(flow.last + 1);
  wire::SetIdentification(frame, is_known ? next : 0);
  const std::optional<uint16_t> found = wire::FindIdentification(frame, places);
  if (!found) return Found::kDamaged;
  const bool is_expected = *found == 0 || (is_known && (*found == next || *found == flow.last));
  const bool is_segment = *found < kSegments;
  if (is_known && flow.segments == kSure && !is_segment && !is_expected) {
    flow.segments = 0;  // Another one may send by the flow now: the next packet is taken.
    return Found::kDamaged;
  }
  if (*found != (is_known ? next : 0)) wire::SetIdentification(frame, *found);
  const uint8_t before = is_known ? flow.segments : 0;
  const auto segments = static_cast<uint8_t>(is_segment ? std::min(before + 1, +kSure) : 0);
  flow = {.key = key, .last = *found, .segments = segments};
  return is_expected ? Found::kExpected : Found::kFitted;
}

}  // namespace uroce::drivers
