// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/device/open_superframes.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "pipeline/port/frames.h"
#include "pipeline/port/port.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/superframe.h"

namespace uroce::datapath {

OpenSuperframes::Open* OpenSuperframes::FindOpen(const QueuePair& qp, uint32_t payload_bytes) {
  for (uint32_t i = count_; i != 0; --i) {
    Open& open = open_[i - 1];
    if (open.queue_pair != &qp) continue;
    const bool fits = payload_bytes <= open.segment_bytes && open.segments < wire::kMaxSegments &&
                      open.frame->data_len + payload_bytes <= drivers::kMaxFrameBytes;
    if (fits) return &open;
    open = open_[--count_];
    return nullptr;
  }
  return nullptr;
}

bool OpenSuperframes::HasRoom(const QueuePair& qp) const {
  const std::span<const Open> open(open_.data(), count_);
  const auto found = std::ranges::find(open, &qp, &Open::queue_pair);
  return found != open.end() && RoomIn(*found) != 0;
}

void OpenSuperframes::Add(const QueuePair& qp, rte_mbuf* frame, size_t headers_bytes) {
  if (count_ == kMost) return;
  const auto segment_bytes = static_cast<uint16_t>(frame->data_len - headers_bytes);
  mark_.Set(*frame, segment_bytes);
  wire::Ipv4Header ip;  // Its identification means nothing over IPv6.
  std::memcpy(&ip, rte_pktmbuf_mtod_offset(frame, const uint8_t*, wire::UdpFrame::kIpOffset),
              sizeof ip);
  open_[count_++] = {.queue_pair = &qp,
                     .frame = frame,
                     .headers_bytes = static_cast<uint16_t>(headers_bytes),
                     .segment_bytes = segment_bytes,
                     .identification = ip.identification.value()};
}

bool OpenSuperframes::EndTurn(const rte_mbuf* last) {
  const std::span<Open> open(open_.data(), count_);
  const auto found = std::ranges::find(open, last, &Open::frame);
  const bool stays = goes_on_ && found != open.end();
  if (stays) open_[0] = *found;
  count_ = stays ? 1 : 0;
  goes_on_ = false;
  return stays;
}

uint32_t OpenSuperframes::MostIn(size_t headers_bytes, uint32_t payload_bytes) {
  return std::min(static_cast<uint32_t>(drivers::kMaxFrameBytes - headers_bytes) / payload_bytes,
                  wire::kMaxSegments);
}

uint32_t OpenSuperframes::RoomIn(const Open& open) {
  return std::min((drivers::kMaxFrameBytes - open.frame->data_len) / open.segment_bytes,
                  wire::kMaxSegments - open.segments);
}

void OpenSuperframes::Extend(Open& open, uint32_t payload_bytes, uint32_t packets) {
  open.frame->data_len = static_cast<uint16_t>(open.frame->data_len + packets * payload_bytes);
  open.frame->pkt_len = open.frame->data_len;
  open.segments = static_cast<uint16_t>(open.segments + packets);
  // A shorter packet is the last one.
  if (payload_bytes < open.segment_bytes) open = open_[--count_];
}

}  // namespace uroce::datapath
