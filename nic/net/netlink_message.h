// SPDX-License-Identifier: Apache-2.0
// Messages of rtnetlink: built for questions, and read from answers and news. Pure.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::nic {

using Bytes = std::span<const uint8_t>;

/// One question under construction. All of ours fit.
class NetlinkRequest {
 public:
  /// `header` is the fixed part behind the netlink header, such as an rtmsg.
  template <typename Header>
  NetlinkRequest(uint16_t type, uint16_t flags, const Header& header) {
    Start(type, flags, &header, sizeof(header));
  }
  void Add(uint16_t type, const void* value, size_t length);
  /// The address alone: 4 bytes or 16.
  void Add(uint16_t type, const Gid& gid);
  /// Attributes added between these two are inside of one of `type`.
  void Open(uint16_t type);
  void Close();

  /// With this sequence number.
  Bytes Finish(uint32_t sequence);

 private:
  static constexpr size_t kMaxBytes = 256;
  void Start(uint16_t type, uint16_t flags, const void* header, size_t length);

  alignas(8) uint8_t bytes_[kMaxBytes] = {};
  size_t length_ = 0;
  size_t open_ = 0;
};

/// Attributes one behind the other, as they follow a message's header or lie in another attribute.
/// Lengths in them are checked against the bytes that are there.
class NetlinkAttributes {
 public:
  explicit NetlinkAttributes(Bytes bytes) : bytes_(bytes) {}
  /// The value of the first of `type`; nothing when there is none.
  std::optional<Bytes> Find(uint16_t type) const;
  /// The same as a T, where it has that size.
  template <typename T>
  std::optional<T> Read(uint16_t type) const {
    const std::optional<Bytes> value = Find(type);
    if (!value || value->size() != sizeof(T)) return std::nullopt;
    T result;
    std::memcpy(&result, value->data(), sizeof(T));
    return result;
  }
  /// The same as attributes in it; none when it is not there.
  NetlinkAttributes Nested(uint16_t type) const {
    return NetlinkAttributes(Find(type).value_or(Bytes()));
  }
  /// A text that ends at its first zero byte.
  std::string Text(uint16_t type) const;

 private:
  Bytes bytes_;
};

/// One message of a datagram. `body` is what follows the netlink header.
struct NetlinkMessage {
  nlmsghdr header{};
  Bytes body;

  /// The fixed part as a T and the attributes behind it; nothing when the body is shorter.
  template <typename T>
  std::optional<T> Fixed() const {
    if (body.size() < sizeof(T)) return std::nullopt;
    T result;
    std::memcpy(&result, body.data(), sizeof(T));
    return result;
  }
  template <typename T>
  NetlinkAttributes Attributes() const {
    const size_t begin = NLMSG_ALIGN(sizeof(T));
    return NetlinkAttributes(body.size() < begin ? Bytes() : body.subspan(begin));
  }
};

/// Takes the next message off the front of a datagram; nothing at its end, or where it is cut.
std::optional<NetlinkMessage> TakeMessage(Bytes& datagram);

/// An address of 4 or 16 bytes.
std::optional<Gid> GidOf(Bytes address);

/// An 802.1Q interface above another one.
struct VlanInterface {
  int ifindex = 0;
  int lower_ifindex = 0;
  std::string name;
  uint16_t vlan_id = 0;
  Mac mac{};
  friend bool operator==(const VlanInterface&, const VlanInterface&) = default;
};
/// Of an RTM_NEWLINK: nothing unless it is one, above an interface of the same network namespace.
std::optional<VlanInterface> ReadVlan(const NetlinkMessage& message);

/// What the kernel says of a neighbour.
struct NeighbourNews {
  int ifindex = 0;
  Gid address;
  std::optional<Mac> mac;    ///< While it is known.
  bool needs_probe = false;  ///< It is known no more, or has not been confirmed for a while.
  bool deleted = false;
};
/// Of an RTM_NEWNEIGH or RTM_DELNEIGH with an IP address.
std::optional<NeighbourNews> ReadNeighbour(const NetlinkMessage& message);

/// What changed since the last look.
struct NetlinkNews {
  bool links = false;   ///< Or addresses.
  bool routes = false;  ///< Or anything else may have changed: news were lost.
  std::vector<NeighbourNews> neighbours;
};

/// An address of an interface.
struct LinkAddress {
  int ifindex = 0;
  Gid address;
  uint8_t prefix_bits = 128;  ///< As in InterfaceAddress.
};
/// Of an RTM_NEWADDR: nothing for an address that another host was found to have (RFC 4862, 5.4.5).
std::optional<LinkAddress> ReadAddress(const NetlinkMessage& message);

/// Bytes of the address alone, as the kernel takes it.
Bytes AddressBytes(const Gid& gid);

}  // namespace uroce::nic
