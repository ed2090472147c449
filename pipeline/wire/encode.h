// SPDX-License-Identifier: Apache-2.0
// Encodes header values into the bytes of a frame. A template holds the bytes that all packets of a
// connection share; each packet copies the template and fills in its other fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Ethernet with a tag, IPv6, UDP, BTH, XRCETH and AtomicETH: the most that EncodeHeaders writes.
inline constexpr size_t kMaxHeaderBytes = 14 + 4 + 40 + 8 + 12 + 4 + 28;
/// The most bytes behind the payload: pad and ICRC.
inline constexpr size_t kMaxTrailerBytes = 3 + 4;

/// As source port of a path: each datagram gets the port of its two queue pairs, see UdpSourcePort.
/// Flows then spread over paths and queues, and the datagrams of one flow stay in order.
inline constexpr uint16_t kPortOfEachDatagram = 0;

/// The traffic class with ECT(0): switches may mark the packet instead of dropping it. The DSCP
/// stays.
constexpr uint8_t EcnCapable(uint8_t traffic_class) {
  constexpr uint8_t kEcnMask = 3;
  constexpr uint8_t kEct0 = 2;
  return static_cast<uint8_t>((traffic_class & ~kEcnMask) | kEct0);
}

/// The addresses of one path, and the fixed fields of its packets. Both GIDs are IPv4
/// (::ffff:a.b.c.d) or both are IPv6.
struct HeaderTemplateConfig {
  Mac source_mac{};
  Mac destination_mac{};
  uint16_t vlan_tci = 0;  ///< 0: no 802.1Q header.
  Gid source;
  Gid destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  ///< 20 bits; IPv6 only.
  uint16_t udp_source_port = 0xc000;
  Qpn dest_qpn;
  uint16_t pkey = 0xffff;
  /// MigReq of every packet. A queue pair without an alternate path is in the state MIGRATED from
  /// the start, and its packets have MigReq 1 (IBTA vol. 1, 17.2.8), like those of adapters. To an
  /// adapter that checks it, 0 means an alternate path. Linux's software RoCE sends 0.
  bool is_migrated = true;
};

/// The bytes from Ethernet to BTH of a path, ready to be copied. Immutable; any thread.
class HeaderTemplate {
 public:
  HeaderTemplate() = default;
  explicit HeaderTemplate(const HeaderTemplateConfig& config);

  bool is_ipv6() const { return is_ipv6_; }
  /// Where the IP header starts.
  size_t ip_offset() const { return ip_offset_; }
  /// Bytes before BTH.
  size_t bth_offset() const { return bth_offset_; }
  bool has_port_of_each_datagram() const { return has_port_of_each_datagram_; }

 private:
  friend struct EncodeAccess;
  static constexpr size_t kBytes = 80;  // 78 at most, rounded up to whole vectors.
  std::array<uint8_t, kBytes> bytes_{};
  uint8_t ip_offset_ = 0;
  uint8_t bth_offset_ = 0;
  bool is_ipv6_ = false;
  bool has_port_of_each_datagram_ = false;
  uint32_t checksum_base_ = 0;  ///< Sum of the IPv4 header without length and identification.
};

/// The state of a packet between EncodeHeaders and WriteTrailer.
struct EncodedHeaders {
  size_t length_bytes = 0;  ///< From Ethernet to the last extended header; the payload follows.
  uint32_t crc_state = 0;   ///< ICRC register after these bytes.
};

/// Whether EncodeHeaders computes the ICRC register, or leaves it 0: for a frame that gets its ICRC
/// later, or never.
enum class HeaderCrc : uint8_t { kComputed, kLeftOut };

/// Writes the headers of a packet with `payload_bytes` of payload to `out`, which has room for
/// kMaxHeaderBytes; bytes beyond the headers may be overwritten within that room. P_Key and, except
/// for datagrams, destination QPN come from the template, not from `header`. The caller then copies
/// the payload (CopyCrc32 from `crc_state`) and calls WriteTrailer. `identification`: IPv4 only.
EncodedHeaders EncodeHeaders(const HeaderTemplate& path, const TransportHeader& header,
                             uint32_t payload_bytes, uint16_t identification, uint8_t* out,
                             HeaderCrc crc = HeaderCrc::kComputed);

/// The ICRC register after `length_bytes` of headers that EncodeHeaders wrote to `headers`.
uint32_t CrcOfHeaders(const HeaderTemplate& path, const uint8_t* headers, size_t length_bytes);

/// Writes pad and ICRC behind the payload, and returns the number of bytes written. `crc_state` is
/// the ICRC register after the payload.
size_t WriteTrailer(uint8_t* out, uint32_t payload_bytes, uint32_t crc_state);
/// Does the same with zeros in place of an ICRC.
size_t WriteEmptyTrailer(uint8_t* out, uint32_t payload_bytes);
/// How many bytes both write.
size_t TrailerBytes(uint32_t payload_bytes);

/// A source port computed from the flow label, or from both QPNs if the label is 0. Both directions
/// get the same port. Source: docs/protocol/wire-format.md, section 1.1.
uint16_t UdpSourcePort(uint32_t flow_label, Qpn local, Qpn remote);

}  // namespace uroce::wire
