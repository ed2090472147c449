// SPDX-License-Identifier: Apache-2.0
// Parses, checks and writes the Ethernet and IP headers around a host's messages. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nic/net/host/headers.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

using Bytes = std::span<const uint8_t>;
/// A whole frame, from the destination MAC on, without FCS; at least 60 bytes where we made it.
using Frame = std::vector<uint8_t>;

/// The result for a frame that the host was given. Each result is counted.
enum class FrameResult : uint8_t {
  kTaken,
  kNotForUs,   ///< Another MAC, address, VLAN or protocol; or our own frame.
  kTruncated,  ///< Shorter than its headers or lengths say, or a wrong length.
  kBadHeader,  ///< Version, hop limit, ICMP code, hardware type, option of length 0.
  kBadChecksum,
  kFragment,    ///< The host reassembles no fragments: no message for it is large.
  kBadAddress,  ///< A MAC or address is not unicast where it must be.
};
inline constexpr int kFrameResultCount = static_cast<int>(FrameResult::kBadAddress) + 1;

/// A parsed Ethernet frame. A priority tag (VLAN 0) counts as no tag.
struct EthernetView {
  Mac destination{};
  Mac source{};
  uint16_t vlan_id = 0;
  uint16_t ether_type = 0;
  Bytes payload;  ///< May end in padding.
};
[[nodiscard]] FrameResult ParseEthernet(Bytes frame, EthernetView& view);

/// A parsed IP packet. Of extension headers only hop-by-hop options are skipped.
struct IpView {
  Gid source;
  Gid destination;
  uint8_t protocol = 0;
  uint8_t hop_limit = 0;
  bool has_options = false;  ///< IPv4 options, which were skipped.
  Bytes payload;             ///< Exactly as long as the IP header says.
};
[[nodiscard]] FrameResult ParseIpv4(Bytes packet, IpView& view);
[[nodiscard]] FrameResult ParseIpv6(Bytes packet, IpView& view);

/// Copies the layout at `offset` of `bytes`. The caller has checked that it lies within.
template <typename Layout>
Layout Load(Bytes bytes, size_t offset = 0) {
  Layout layout;
  std::memcpy(&layout, bytes.data() + offset, sizeof(layout));
  return layout;
}

inline bool IsUnicast(const Mac& mac) { return (mac[0] & 1) == 0 && mac != Mac{}; }

/// The Ethernet addresses of a frame, and its VLAN.
struct Link {
  Mac source{};
  Mac destination{};
  uint16_t vlan_id = 0;  ///< 0: untagged.
};

/// Writes a frame from the front to the back.
class FrameWriter {
 public:
  FrameWriter(const Link& link, uint16_t ether_type);

  template <typename Layout>
  void Add(const Layout& layout) {
    AddBytes({reinterpret_cast<const uint8_t*>(&layout), sizeof(layout)});
  }
  void AddBytes(Bytes bytes) { frame_.insert(frame_.end(), bytes.begin(), bytes.end()); }
  /// Adds an IPv4 header for `payload_bytes` that follow. It says "do not fragment".
  void AddIpv4(const Gid& source, const Gid& destination, uint8_t protocol, size_t payload_bytes);
  /// Adds an IPv4 header with a router alert, as IGMP is sent: every router on the way reads it.
  void AddIpv4WithRouterAlert(const Gid& source, const Gid& destination, uint8_t protocol,
                              uint8_t ttl, size_t payload_bytes);
  void AddIpv6(const Gid& source, const Gid& destination, uint8_t protocol, uint8_t hop_limit,
               size_t payload_bytes);
  /// Adds an ICMPv6 message, and fills in its checksum.
  void AddIcmpv6(const Gid& source, const Gid& destination, Bytes message);
  /// The frame, padded to the least that Ethernet sends.
  Frame Finish();

 private:
  Frame frame_;
};

}  // namespace uroce::nic
