// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/capture/packet_records.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "pipeline/base/streaming_store.h"

namespace uroce::datapath {

CaptureTap::CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes,
                       const TapConfig& config)
    : page_(page), ring_(ring), ring_bytes_(ring_bytes), config_(config) {}

void CaptureTap::Publish(Nanos reached) {
  if (published_ != produced_) {
    published_ = produced_;
    cpu::StreamFence();  // A release does not order them.
    std::atomic_ref(page_->produced.value).store(produced_, std::memory_order_release);
  }
  std::atomic_ref(page_->reached.value)
      .store(static_cast<uint64_t>(reached.count()), std::memory_order_release);
}

void CaptureTap::CountLost(uint32_t interface_index, uint16_t direction) {
  const bool inbound = direction == UROCE_CAPTURE_INBOUND;
  uroce_capture_lost& mine = lost_[interface_index];
  uroce_capture_lost& shared = page_->lost[interface_index];
  const uint64_t count = inbound ? ++mine.inbound : ++mine.outbound;
  std::atomic_ref(inbound ? shared.inbound : shared.outbound)
      .store(count, std::memory_order_relaxed);
}

bool CaptureTap::MakeRoom(uint64_t size) {
  const uint64_t consumed = std::atomic_ref(page_->consumed.value).load(std::memory_order_acquire);
  const uint64_t used = produced_ - consumed;
  // An impossible `consumed` makes more than the ring "used": the tool loses packets.
  if (used > ring_bytes_) return false;
  const auto to_end = [this] { return ring_bytes_ - (produced_ & (ring_bytes_ - 1)); };
  const uint64_t filler = size <= to_end() ? 0 : to_end();
  if (filler + size > ring_bytes_ - used) return false;
  if (filler != 0) {
    const uint32_t header[2] = {static_cast<uint32_t>(filler), UROCE_NONE};
    std::memcpy(ring_ + ring_bytes_ - filler, header, sizeof(header));
    produced_ += filler;
  }
  room_end_ = std::min(consumed + ring_bytes_, produced_ + to_end());
  return true;
}

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
