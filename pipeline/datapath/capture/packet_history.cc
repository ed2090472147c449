// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/capture/packet_history.h"

#include <algorithm>
#include <cstring>

namespace uroce::datapath {

void PacketHistory::Add(uint16_t direction, std::span<const uint8_t> frame, Nanos time,
                        const uroce_capture_note& note) {
  HistoryPacket& packet = packets_[added_++ % packets_.size()];
  const size_t captured = std::min<size_t>(frame.size(), kHistorySnapBytes);
  packet.time_ns = static_cast<uint64_t>(time.count());
  packet.wire_length_bytes = static_cast<uint32_t>(frame.size());
  packet.captured_bytes = static_cast<uint16_t>(captured);
  packet.direction = direction;
  packet.note = note;
  std::memcpy(packet.bytes.data(), frame.data(), captured);
}

std::vector<HistoryPacket> PacketHistory::InOrder() const {
  const uint64_t kept = std::min<uint64_t>(added_, packets_.size());
  std::vector<HistoryPacket> packets;
  packets.reserve(kept);
  for (uint64_t i = added_ - kept; i != added_; ++i) {
    packets.push_back(packets_[i % packets_.size()]);
  }
  return packets;
}

}  // namespace uroce::datapath
