// SPDX-License-Identifier: Apache-2.0
// Receives frames from a packet socket, and cuts superframes into frames.
#pragma once

#include <linux/if_packet.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "drivers/packet_socket/vnet_header.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

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

}  // namespace uroce::drivers
