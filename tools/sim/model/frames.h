// SPDX-License-Identifier: Apache-2.0
// Packets on the simulated network: the headers that switches look at as bytes, all others as
// values, and no payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/fabric/frame.h"
#include "pipeline/wire/packet.h"

namespace uroce::tools::sim {

/// The MAC of a host.
constexpr Mac MacOf(uint32_t host) {
  return {2,
          0,
          0,
          static_cast<uint8_t>(host >> 16),
          static_cast<uint8_t>(host >> 8),
          static_cast<uint8_t>(host)};
}

/// The address of a host: 10.x.y.z.
constexpr Gid AddressOf(uint32_t host) {
  const uint32_t number = host + 1;
  Gid address;
  address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10};
  address.bytes[13] = static_cast<uint8_t>(number >> 16);
  address.bytes[14] = static_cast<uint8_t>(number >> 8);
  address.bytes[15] = static_cast<uint8_t>(number);
  return address;
}

/// One packet. Its holder owns it: an adapter, the network, or a queue pair that keeps it behind a
/// hole.
struct alignas(64) PacketFrame {
  /// Ethernet, IPv4 and UDP.
  static constexpr uint32_t kHeaderBytes = 14 + 20 + 8;
  static constexpr uint32_t kIpOffset = 14;

  std::array<uint8_t, 48> bytes{};  ///< As HeaderTemplate has them.
  uint32_t length_bytes = 0;        ///< On the wire, without FCS.
  uint32_t payload_bytes = 0;
  uint32_t target = 0;          ///< The queue pair that it goes to.
  uint16_t identification = 0;  ///< Of IPv4; the sender counts.
  bool is_doomed = false;       ///< The script of the scenario has it lost on its last link.
  wire::TransportHeader header;
  std::vector<uint8_t> map;  ///< The payload of a selective acknowledgement.

  void Prefetch() const {
    const auto* const begin = reinterpret_cast<const uint8_t*>(this);
    for (size_t at = 0; at < sizeof *this; at += 64) __builtin_prefetch(begin + at);
  }
  bool is_marked() const { return (bytes[kIpOffset + 1] & 3) == 3; }
  fabric::Frame AsFrame() {
    return {.bytes = bytes.data(), .length_bytes = length_bytes, .owner = this};
  }
};

/// The length of a packet's frame without FCS.
constexpr uint32_t FrameBytes(const wire::OpcodeInfo& info, uint32_t payload_bytes) {
  constexpr uint32_t kIcrcBytes = 4;
  return PacketFrame::kHeaderBytes + info.header_bytes + (payload_bytes + 3) / 4 * 4 + kIcrcBytes;
}

/// Packets, which are used again and again. One thread.
class FramePool {
 public:
  PacketFrame& Take() {
    if (free_.empty()) return frames_.emplace_back();
    PacketFrame* const frame = free_.back();
    free_.pop_back();
    frame->is_doomed = false;
    return *frame;
  }
  void Give(PacketFrame& frame) { free_.push_back(&frame); }
  /// The most packets that were in use at a time.
  size_t made() const { return frames_.size(); }

 private:
  std::deque<PacketFrame> frames_;
  std::vector<PacketFrame*> free_;
};

}  // namespace uroce::tools::sim
