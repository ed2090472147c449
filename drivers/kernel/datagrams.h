// SPDX-License-Identifier: Apache-2.0
// Sends frames as datagrams of UDP sockets, and makes frames of received datagrams, those of a flow
// as superframes; finds the IPv4 identifications, which a UDP socket does not tell.
#pragma once

#include <netinet/in.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "drivers/kernel/frame_groups.h"
#include "drivers/kernel/udp_sockets.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

// The IPv4 identifications of received packets, which a UDP socket does not tell.

/// The ICRC covers the identification (docs/protocol/wire-format.md, section 7.4). Expected are 0,
/// the flow's last one, and that plus one. Else the identification is the one that the ICRC fits:
/// of 65,536 damaged packets one has such. Ports by UDP sockets, and who always sends 0, stay below
/// kSegments: in a flow that has done so for kSure packets, nothing else fits. One thread.
class IdentificationGuess {
 public:
  static constexpr uint16_t kSegments = wire::kMaxSegments;
  /// A counter leaves the identifications below kSegments earlier.
  static constexpr uint8_t kSure = 2 * kSegments;

  enum class Found : uint8_t {
    kExpected,
    kFitted,   ///< By the ICRC alone.
    kDamaged,  ///< None fits: the identification stays an expected one. Or the flow has no such.
  };
  /// Stores the identification in `frame`, an untagged RoCE frame that ends with its ICRC. IPv6 has
  /// none: kExpected.
  Found Store(std::span<uint8_t> frame, const wire::UdpFrame& places);

 private:
  static constexpr uint32_t kFlows = 1024;
  struct Flow {
    uint32_t key = 0;
    uint16_t last = 0;
    uint8_t segments = 0;  ///< Packets in a row with identifications below kSegments, up to kSure.
  };

  std::array<Flow, kFlows> flows_{};
};

// Receives datagrams from UDP sockets as frames, and cuts superframes into frames.

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

// Sends frames by UDP sockets, those of a flow as superframes.

/// One thread.
class DatagramWriter {
 public:
  DatagramWriter();
  ~DatagramWriter();

  struct Sent {
    uint16_t frames = 0;   ///< Sent or dropped: their mbufs are freed.
    uint16_t dropped = 0;  ///< Of these, those that the kernel cannot send.
    bool is_full = false;  ///< The kernel has no room for the frame that is first now.
  };
  /// Sends the first n of `count` frames, each with the source port of its flow's socket and the
  /// identification that the kernel gives it, and with the ICRC of these. Frames of different flows
  /// may change their order, also in `frames`. Frames leave one by one from the time on when the
  /// kernel refuses superframes.
  Sent Send(const UdpSockets& sockets, rte_mbuf** frames, uint16_t count);

 private:
  struct Burst;

  const std::unique_ptr<Burst> burst_;
  bool sends_superframes_ = true;
};

}  // namespace uroce::drivers
