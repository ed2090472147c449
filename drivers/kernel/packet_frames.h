// SPDX-License-Identifier: Apache-2.0
// Sends and receives frames by a packet socket, those of a flow as superframes.
#pragma once

#include <linux/if_packet.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "drivers/kernel/frame_groups.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

// What stands before each frame on a packet socket with PACKET_VNET_HDR: struct virtio_net_hdr of
// <linux/virtio_net.h>, which is no C++.

struct VnetHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t hdr_len = 0;      ///< Bytes before the payload.
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

// Receives frames from a packet socket, and cuts superframes into frames.

/// One thread.
class FrameReader {
 public:
  FrameReader();
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  /// Yields up to `count` frames in mbufs of `pool`; the caller owns them. Reads the socket only
  /// when nothing is left of what it has read before.
  uint16_t Receive(int socket, rte_mempool* pool, rte_mbuf** frames, uint16_t count);
  /// Whether frames are left of what the reader has read.
  bool has_frames() const { return at_ != read_; }
  /// Frames and superframes that were dropped since the last call: too long, or of another kind.
  uint64_t TakeDropped();

 private:
  static constexpr uint16_t kMost = 32;  // Messages of one system call.
  static constexpr size_t kBytes = 14 + wire::kMaxSuperframeBytes;
  using Buffer = std::array<uint8_t, kBytes>;

  struct Message {
    uint32_t length_bytes = 0;
    bool is_tagged = false;
    uint16_t vlan_tci = 0;
  };

  union Control {
    cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(tpacket_auxdata))];
  };

  bool Read(int socket);
  /// Begins with the message at `at_`. False: it was dropped.
  bool Begin();
  /// Writes the next frame of the message to `frame`. False: it does not fit.
  bool Write(rte_mbuf& frame);
  std::span<uint8_t> bytes() { return {(*buffers_)[at_].data(), messages_[at_].length_bytes}; }

  std::unique_ptr<std::array<Buffer, kMost>> buffers_;
  std::array<VnetHeader, kMost> vnet_{};
  std::array<Control, kMost> controls_{};
  std::array<std::array<iovec, 2>, kMost> parts_{};
  std::array<mmsghdr, kMost> headers_{};
  std::array<Message, kMost> messages_{};
  uint16_t read_ = 0;  ///< Messages in the buffers.
  uint16_t at_ = 0;    ///< The message that is next, or begun.
  bool has_superframes_ = false;
  uint64_t dropped_ = 0;

  // Of the message that is begun.
  bool is_begun_ = false;
  std::optional<wire::SuperframeCutter> cutter_;  ///< Nothing: the message is one frame.
  wire::Identifications identifications_ = wire::Identifications::kRising;
  uint32_t segment_ = 0;
};

// Sends frames to a packet socket, those of a flow as superframes.

/// One thread.
class FrameWriter {
 public:
  static constexpr uint16_t kMostFrames = FrameGroups::kMostFrames;  ///< Of one system call.

  FrameWriter();
  ~FrameWriter();

  struct Sent {
    uint16_t frames = 0;   ///< Sent or dropped: their mbufs are freed.
    uint16_t dropped = 0;  ///< Of these, those that the interface cannot send.
    bool is_full = false;  ///< The kernel has no room for the frame that is first now.
  };
  /// Sends the first n of `count` frames; frames of different flows may change their order, also in
  /// `frames`. When the kernel refuses superframes, frames leave one by one from then on.
  Sent Send(int socket, rte_mbuf** frames, uint16_t count);

 private:
  struct Burst;

  const std::unique_ptr<Burst> burst_;
  bool sends_superframes_ = true;
};

}  // namespace uroce::drivers
