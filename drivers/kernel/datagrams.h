// SPDX-License-Identifier: Apache-2.0
// Frames as datagrams of UDP sockets: headers leave and arrive as what the kernel is told and
// tells. A UDP socket does not tell the IPv4 identification of a packet, which its ICRC covers.
#pragma once

#include <netinet/in.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "drivers/kernel/socket_frames.h"
#include "drivers/kernel/sockets.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

/// The source MAC of all frames of UDP ports, which come from peers that have none here.
inline constexpr Mac kUdpPeerMac = {0x02, 0x55, 0x44, 0x50, 0x00, 0x00};

/// The IPv4 identifications of received packets.
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
  /// `count` packets with rising identifications follow the one that `frame` was stored in.
  void Pass(std::span<const uint8_t> frame, const wire::UdpFrame& places, uint32_t count);

 private:
  static constexpr uint32_t kFlows = 1024;
  struct Flow {
    uint32_t key = 0;
    uint16_t last = 0;
    uint8_t segments = 0;  ///< Packets in a row with identifications below kSegments, up to kSure.
  };

  std::array<Flow, kFlows> flows_{};
};

/// Frames get headers of what the kernel tells: addresses, source port, traffic class and hop
/// limit. One thread.
class DatagramReader final : public MessageReader {
 public:
  DatagramReader();

  /// The destination of frames but those to multicast groups. While no thread is inside.
  void SetMac(const Mac& mac) { mac_ = mac; }
  /// Yields up to `count` frames in mbufs of `pool`; the caller owns them.
  uint16_t Receive(const UdpSockets& sockets, rte_mempool* pool, rte_mbuf** frames, uint16_t count,
                   bool whole = false) {
    return ReceiveFrames(pool, frames, count, whole, [&] { return Read(sockets); });
  }

 private:
  bool Read(const UdpSockets& sockets);
  void UseBuffer(uint16_t index) override;
  bool Begin() override;
  bool Write(rte_mbuf& frame) override;
  /// Looks whether the ICRCs of the message, which has several packets, are all right.
  void CheckSuperframe(std::span<uint8_t> superframe);

  static constexpr uint32_t kReadsOfOne = 4;

  Mac mac_{};
  std::array<sockaddr_in6, kMost> sources_{};
  std::array<iovec, kMost> parts_{};
  bool is_ipv6_ = false;  ///< Of all messages that were read.
  uint32_t reads_ = 0;    ///< That have found nothing of that family.
  IdentificationGuess guess_;
  wire::UdpFrame places_;  ///< Of the message that is begun.
};

/// Each frame leaves with the source port of its flow's socket and the identification that the
/// kernel gives it, and with the ICRC of these. One thread.
class DatagramWriter {
 public:
  DatagramWriter();
  ~DatagramWriter();
  /// See SuperframeSender::Send.
  SentFrames Send(const UdpSockets& sockets, rte_mbuf** frames, uint16_t count,
                  bool goes_on = false);
  bool sends_superframes() const;

 private:
  struct Burst;

  const std::unique_ptr<Burst> burst_;
};

}  // namespace uroce::drivers
