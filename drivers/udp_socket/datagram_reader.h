// SPDX-License-Identifier: Apache-2.0
// Receives datagrams from UDP sockets as frames, and cuts superframes into frames.
#pragma once

#include <netinet/in.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "drivers/udp_socket/identification_guess.h"
#include "drivers/udp_socket/udp_sockets.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

/// The source MAC of all frames of UDP ports, which come from peers that have none here.
inline constexpr Mac kUdpPeerMac = {0x02, 0x55, 0x44, 0x50, 0x00, 0x00};

/// Frames get headers of what the kernel tells: addresses, source port, traffic class and hop
/// limit. One thread.
class DatagramReader {
 public:
  DatagramReader();
  DatagramReader(const DatagramReader&) = delete;
  DatagramReader& operator=(const DatagramReader&) = delete;

  /// The destination of frames but those to multicast groups. While no thread is inside.
  void SetMac(const Mac& mac) { mac_ = mac; }
  /// Yields up to `count` frames in mbufs of `pool`; the caller owns them. Reads the sockets only
  /// when nothing is left of what it has read before.
  uint16_t Receive(const UdpSockets& sockets, rte_mempool* pool, rte_mbuf** frames, uint16_t count);
  /// Whether frames are left of what the reader has read.
  bool has_frames() const { return at_ != read_; }

  struct Counts {
    uint64_t dropped = 0;  ///< Too long, or without what the kernel should tell.
    uint64_t fitted = 0;   ///< IdentificationGuess::Found::kFitted.
  };
  /// Counts since the last call.
  Counts TakeCounts();

 private:
  static constexpr uint16_t kMost = 32;  // Messages of one system call.
  static constexpr size_t kBytes = wire::kMaxUdpHeaderBytes + wire::kMaxSuperframeBytes;
  static constexpr size_t kControlBytes =
      CMSG_SPACE(sizeof(in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int)) + 64;
  using Buffer = std::array<uint8_t, kBytes>;

  bool Read(const UdpSockets& sockets);
  bool Read(const Fd& socket, bool is_ipv6);
  /// Begins with the message at `at_`. False: it was dropped.
  bool Begin();
  /// Writes the next frame of the message to `frame`. False: it does not fit.
  bool Write(rte_mbuf& frame);

  Mac mac_{};
  std::unique_ptr<std::array<Buffer, kMost>> buffers_;
  alignas(cmsghdr) std::array<std::array<uint8_t, kControlBytes>, kMost> controls_{};
  std::array<sockaddr_in6, kMost> sources_{};
  std::array<iovec, kMost> parts_{};
  std::array<mmsghdr, kMost> headers_{};
  uint16_t read_ = 0;  ///< Messages in the buffers.
  uint16_t at_ = 0;    ///< The message that is next, or begun.
  bool is_ipv6_ = false;
  bool has_superframes_ = false;
  Counts counts_;
  IdentificationGuess identifications_;

  // Of the message that is begun.
  bool is_begun_ = false;
  std::optional<wire::SuperframeCutter> cutter_;
  wire::UdpFrame places_;
  uint32_t segment_ = 0;
};

}  // namespace uroce::drivers
