// SPDX-License-Identifier: Apache-2.0
// Frames in the hands of a worker: a received frame with its packet and addresses, the mark of a
// group's copy, and a stock of empty frames.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/device/device_port.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/port/frame_marks.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

// A received frame is in an mbuf, which is always one segment.

/// The bits of a tag that hold the VLAN; 0: no VLAN (docs/protocol/wire-format.md, section 1).
constexpr uint16_t kVlanIdMask = 0xfff;

inline std::span<const uint8_t> BytesOf(const rte_mbuf& frame) {
  return {rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len};
}

/// Decodes a frame again that was decoded and checked when it came. False: it cannot be decoded
/// this time.
inline bool DecodeAgain(const rte_mbuf& frame, wire::Packet& packet, wire::FrameView& view) {
  return wire::Decode(BytesOf(frame), packet, view) == wire::DecodeResult::kOk;
}

/// Marks the copies of multicast packets that workers give each other. A frame with it is a copy of
/// a packet that captures have seen and all workers were given.
class MulticastMark : public drivers::FrameFlag {
 public:
  MulticastMark() : FrameFlag("uroce_multicast_copy") {}
};

// Whether a packet's partition and addresses are those that a queue pair expects.

/// Whether `pkey` matches 0xffff, the only P_Key of the table; the top bit is the kind of
/// membership (docs/protocol/wire-format.md, section 6).
constexpr bool IsOurPkey(uint16_t pkey) { return (pkey & 0x7fff) == 0x7fff; }

/// Compares two words at a time: every packet is checked.
inline bool IsSame(const Gid& a, const Gid& b) {
  uint64_t halves[4];
  std::memcpy(halves, a.bytes.data(), 16);
  std::memcpy(halves + 2, b.bytes.data(), 16);
  return ((halves[0] ^ halves[2]) | (halves[1] ^ halves[3])) == 0;
}

/// Whether source and destination are those of the connection, and the tag is that of its path.
inline bool IsFromPeer(const Path& path, const wire::Packet& packet, const wire::FrameView& view) {
  return IsSame(packet.source, path.destination) && IsSame(packet.destination, path.source) &&
         ((view.vlan_tci ^ path.vlan_tci) & kVlanIdMask) == 0;
}

/// Whether a datagram is for an address of the device. Any sender passes: the Q_Key decides.
inline bool IsForDevice(const Device& device, const wire::Packet& packet,
                        const wire::FrameView& view) {
  return std::ranges::any_of(device.addresses, [&](const Device::Address& address) {
    return address.gid == packet.destination && address.vlan_id == (view.vlan_tci & kVlanIdMask);
  });
}

/// Empty frames that a worker has taken from its pool in advance. Takes frames from a pool a burst
/// at a time. One thread.
class FrameStash {
 public:
  explicit FrameStash(rte_mempool* pool) : pool_(pool) {}
  ~FrameStash() { rte_pktmbuf_free_bulk(frames_.data(), count_); }
  FrameStash(const FrameStash&) = delete;
  FrameStash& operator=(const FrameStash&) = delete;

  /// Returns an empty frame. Null: the pool is empty, which `counters` count.
  rte_mbuf* Take(DeviceCounters& counters) {
    if (count_ == 0 && !Fill(counters)) return nullptr;
    return frames_[--count_];
  }
  /// Copies a frame, to be sent or received once more. Null: no frame is free or large enough.
  rte_mbuf* Copy(const rte_mbuf& frame, DeviceCounters& counters) {
    rte_mbuf* const copy = Take(counters);
    if (copy == nullptr) return nullptr;
    if (frame.data_len > rte_pktmbuf_tailroom(copy)) {
      Return(copy);
      Count(counters.no_buffer);
      return nullptr;
    }
    std::memcpy(rte_pktmbuf_mtod(copy, uint8_t*), rte_pktmbuf_mtod(&frame, const uint8_t*),
                frame.data_len);
    copy->data_len = frame.data_len;
    copy->pkt_len = frame.data_len;
    pending_.Inherit(*copy, frame);
    return copy;
  }
  /// Takes back an unchanged frame that Take returned.
  void Return(rte_mbuf* frame) { frames_[count_++] = frame; }

 private:
  bool Fill(DeviceCounters& counters) {
    if (rte_pktmbuf_alloc_bulk(pool_, frames_.data(), kBurst) != 0) {
      Count(counters.no_buffer);
      return false;
    }
    count_ = kBurst;
    return true;
  }

  rte_mempool* const pool_;
  const drivers::PendingIcrc pending_;
  std::array<rte_mbuf*, kBurst> frames_{};
  uint32_t count_ = 0;
};

}  // namespace uroce::datapath
