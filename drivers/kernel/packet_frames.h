// SPDX-License-Identifier: Apache-2.0
// Frames to and from a packet socket: before each message stands a virtio_net_hdr.
#pragma once

#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "drivers/kernel/socket_frames.h"
#include "pipeline/os/fd.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

/// What stands before each frame on a packet socket with PACKET_VNET_HDR: struct virtio_net_hdr of
/// <linux/virtio_net.h>, which is no C++.
struct VnetHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  /// Bytes that the kernel keeps in the frame's first block of memory: at least all before the
  /// payload.
  uint16_t hdr_len = 0;
  uint16_t gso_size = 0;     ///< Payload bytes of each packet of a superframe but the last.
  uint16_t csum_start = 0;   ///< Of what is still to be summed.
  uint16_t csum_offset = 0;  ///< Of the checksum, behind csum_start.
};
static_assert(sizeof(VnetHeader) == 10);

/// Bit of flags: the checksum is that of the pseudo header alone.
inline constexpr uint8_t kNeedsChecksum = 1;
/// Values of gso_type: one packet; UDP packets (VIRTIO_NET_HDR_GSO_UDP_L4, Linux 6.2).
inline constexpr uint8_t kNoGso = 0;
inline constexpr uint8_t kGsoUdpPackets = 5;

/// One thread.
class PacketReader final : public MessageReader {
 public:
  PacketReader();
  /// Yields up to `count` frames in mbufs of `pool`; the caller owns them.
  uint16_t Receive(const Fd& socket, rte_mempool* pool, rte_mbuf** frames, uint16_t count,
                   bool whole = false) {
    return ReceiveFrames(pool, frames, count, whole, [&] { return Read(socket); });
  }

 private:
  struct Message {
    uint32_t length_bytes = 0;
    bool is_tagged = false;
    uint16_t vlan_tci = 0;
  };

  bool Read(const Fd& socket);
  void UseBuffer(uint16_t index) override;
  bool Begin() override;
  bool Write(rte_mbuf& frame) override;
  std::span<uint8_t> bytes() { return {BufferOf(at_), messages_[at_].length_bytes}; }

  std::array<VnetHeader, kMost> vnet_{};
  std::array<std::array<iovec, 2>, kMost> parts_{};
  std::array<Message, kMost> messages_{};
  wire::Identifications likely_ = wire::Identifications::kRising;  ///< Of a superframe.
};

/// One thread. An error that superframes alone have ends them: frames leave one by one from then
/// on.
class PacketWriter {
 public:
  /// The most bytes in one block: what the kernel puts before and behind them fits into 64 KB too.
  static constexpr uint32_t kMostInBlock = 64'000;

  PacketWriter();
  ~PacketWriter();
  /// Whether the kernel is to keep a frame in one block of memory, up to kMostInBlock bytes of it,
  /// or in pages behind its headers. Any thread.
  void set_uses_blocks(bool uses_blocks) {
    uses_blocks_.store(uses_blocks, std::memory_order_relaxed);
  }
  /// See SuperframeSender::Send.
  SentFrames Send(const Fd& socket, rte_mbuf** frames, uint16_t count, bool goes_on = false);
  bool sends_superframes() const;

 private:
  struct Burst;

  const std::unique_ptr<Burst> burst_;
  std::atomic<bool> uses_blocks_{false};
};

}  // namespace uroce::drivers
