// SPDX-License-Identifier: Apache-2.0
// Superframes: UDP packets of one flow that the kernel takes and delivers as one long packet, which
// it or the NIC cuts into segments (GSO_UDP_L4), or has put together from packets (GRO).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace uroce::wire {

/// The most packets of a superframe (UDP_MAX_SEGMENTS of Linux until 6.9).
inline constexpr uint32_t kMaxSegments = 64;
/// The most bytes of a superframe from its IP header on.
inline constexpr uint32_t kMaxSuperframeBytes = 65535;
/// The most bytes before the UDP payload of a frame that superframes are made of.
inline constexpr uint32_t kMaxUdpHeaderBytes = 14 + 40 + 8;

/// The places in an untagged frame with a UDP packet.
struct UdpFrame {
  uint16_t payload_offset = 0;
  bool is_ipv6 = false;

  static constexpr uint16_t kIpOffset = 14;
  uint16_t udp_offset() const { return static_cast<uint16_t>(payload_offset - 8); }
};

/// Nothing: the frame is no UDP packet, is a fragment, is tagged, or has IP options or extension
/// headers.
std::optional<UdpFrame> FindUdp(std::span<const uint8_t> frame);

/// Collects frames that can leave as one superframe.
class SuperframeBuilder {
 public:
  /// Begins with `frame`, which stays in place as long as the builder is used.
  explicit SuperframeBuilder(std::span<const uint8_t> frame);
  /// Begins with all packets of `superframe`: the first one's frame, and the UDP payloads of the
  /// others behind it. Range: `segment_bytes` of UDP payload in each but the last.
  SuperframeBuilder(std::span<const uint8_t> superframe, uint16_t segment_bytes);

  enum class Added : uint8_t { kYes, kOtherFlow, kDoesNotFit };
  /// Adds `frame` if it continues the superframe: headers and size as those of the first frame, and
  /// the next IPv4 identification. The last frame may be shorter.
  Added Add(std::span<const uint8_t> frame);

  uint32_t segments() const { return segments_; }
  /// Whether a frame as long as the first one fits behind the others.
  bool HasRoom() const;
  /// Whether the first frame is a UDP packet, so that `places` may be called.
  bool has_places() const { return places_.has_value(); }
  const UdpFrame& places() const { return *places_; }
  /// UDP payload of each segment but the last.
  uint16_t segment_bytes() const {
    return static_cast<uint16_t>(first_.size() - places_->payload_offset);
  }
  /// Writes the headers, whose lengths and checksums are those of the superframe, to `out`, which
  /// has room for kMaxUdpHeaderBytes. The UDP checksum is that of the pseudo header alone, as the
  /// kernel expects it. Returns the bytes written: places().payload_offset. Range: segments() > 1.
  size_t WriteHeaders(uint8_t* out) const;

 private:
  std::span<const uint8_t> first_;
  std::optional<UdpFrame> places_;
  uint32_t segments_ = 1;
  uint32_t payload_bytes_ = 0;  ///< UDP payload of all.
  bool is_complete_ = false;    ///< A shorter frame was added, or none can be.
};

/// How the IPv4 identifications of the packets in a superframe follow each other.
enum class Identifications : uint8_t { kRising, kSame };

/// Packets of one message that follow each other in a superframe: MIDDLE packets whose BTHs differ
/// in AckReq alone, with consecutive PSNs, each as long as the first packet of the superframe.
struct SegmentRun {
  uint32_t packets = 0;
  uint32_t stride_bytes = 0;  ///< From the payload of one packet to that of the next.
  bool asks_for_ack = false;  ///< At least one of them does.
};

/// Cuts a received superframe into frames.
class SuperframeCutter {
 public:
  /// `segment_bytes`: UDP payload of each segment but the last, as the kernel tells. Nothing: this
  /// is no superframe of UDP packets.
  static std::optional<SuperframeCutter> Make(std::span<const uint8_t> superframe,
                                              uint16_t segment_bytes);

  uint32_t segments() const { return segments_; }
  /// Size of the frame of segment `index`.
  uint32_t FrameBytes(uint32_t index) const;
  /// Writes the frame of segment `index` to `out`, which has room for FrameBytes. Its UDP checksum
  /// is 0.
  void Write(uint32_t index, Identifications identifications, uint8_t* out) const;
  /// Writes its headers alone. Returns how many bytes they have.
  uint16_t WriteHeaders(uint32_t index, Identifications identifications, uint8_t* out) const;
  /// The run that begins with segment `index`, whose headers need not be written. Without packets:
  /// the segment is no MIDDLE packet, or is shorter than the first one.
  SegmentRun FindRun(uint32_t index) const;
  /// Where its UDP payload begins in the superframe.
  uint32_t PayloadOffset(uint32_t index) const {
    return places_.payload_offset + index * segment_bytes_;
  }
  const UdpFrame& places() const { return places_; }
  /// UDP payload of each segment but the last.
  uint16_t segment_bytes() const { return segment_bytes_; }

 private:
  SuperframeCutter(std::span<const uint8_t> superframe, const UdpFrame& places,
                   uint16_t segment_bytes);

  /// Headers of a frame, but for lengths, identification and the IPv4 checksum.
  struct Headers {
    std::array<uint8_t, kMaxUdpHeaderBytes> bytes{};
    uint16_t identification = 0;  ///< Of the first frame.
    uint64_t sum = 0;             ///< Of the IPv4 header, without what is missing.
  };

  std::span<const uint8_t> superframe_;
  UdpFrame places_;
  uint16_t segment_bytes_;
  uint32_t segments_;
  Headers headers_;
};

/// Completes a checksum that the kernel has left to the NIC: stores the sum of the bytes from
/// `start` on, `offset` bytes behind `start`. False: they are not in the frame.
bool CompleteChecksum(std::span<uint8_t> frame, size_t start, size_t offset);

}  // namespace uroce::wire
