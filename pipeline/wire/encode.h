// SPDX-License-Identifier: Apache-2.0
// From header values to the bytes of a frame. What all packets of a connection share is written
// once, into a template; a packet copies it and fills in the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Ethernet with a tag, IPv6, UDP, BTH, XRCETH and AtomicETH: the most that EncodeHeaders writes.
inline constexpr size_t kMaxHeaderBytes = 14 + 4 + 40 + 8 + 12 + 4 + 28;
/// The most that follows the payload: pad and ICRC.
inline constexpr size_t kMaxTrailerBytes = 3 + 4;

/// As a path's source port: each datagram has that of its two queue pairs, see UdpSourcePort. Flows
/// then spread over paths and queues, and the datagrams of one flow stay in order.
inline constexpr uint16_t kPortOfEachDatagram = 0;

/// Addresses of one path, and the fixed fields of the packets that take it. Both GIDs are IPv4
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
  /// the start, and its packets say so (IBTA vol. 1, 17.2.8), as those of adapters do: to an
  /// adapter that looks at it, 0 is a peer with an alternate path. Linux's software RoCE sends 0.
  bool is_migrated = true;
};

/// Bytes Ethernet to BTH of a path, ready to be copied. Immutable; any thread.
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
  uint32_t checksum_base_ = 0;  ///< Sum of the IPv4 header's words but length and identification.
};

/// What the encoder of a packet needs to know of the bytes it has begun.
struct EncodedHeaders {
  size_t length_bytes = 0;  ///< Ethernet to the last extended header: the payload goes here.
  uint32_t crc_state = 0;   ///< ICRC register up to there.
};

/// Writes the headers of a packet with `payload_bytes` of payload to `out`, which has room for
/// kMaxHeaderBytes; bytes beyond the headers may be overwritten within that room. P_Key and
/// destination QPN are the template's, not the header's, but for datagrams the QPN is. Next come
/// the payload (CopyCrc32 from `crc_state`), then WriteTrailer. `identification`: IPv4 only.
EncodedHeaders EncodeHeaders(const HeaderTemplate& path, const TransportHeader& header,
                             uint32_t payload_bytes, uint16_t identification, uint8_t* out);

/// Writes pad and ICRC behind the payload and returns how many bytes that is. `crc_state` is the
/// register after the payload.
size_t WriteTrailer(uint8_t* out, uint32_t payload_bytes, uint32_t crc_state);

/// Entropy in the source port: from the flow label, or from both QPNs if it is 0, symmetrically so
/// that both directions take the same port. Source: docs/protocol/wire-format.md, section 1.1.
uint16_t UdpSourcePort(uint32_t flow_label, Qpn local, Qpn remote);

}  // namespace uroce::wire
