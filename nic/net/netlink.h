// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for links, addresses, routes and neighbours in the daemon's network namespace,
// and reads its news about them.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nic/net/address.h"
#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

// Queries the kernel for routes and neighbours.

/// How packets to a destination leave the host.
struct KernelRoute {
  int ifindex = 0;
  Gid source;
  bool is_local = false;  ///< The destination is an address of this host.
};

/// Implemented by Netlink, and by tests. Calls return the answer directly. Control thread.
class KernelRouting {
 public:
  virtual ~KernelRouting() = default;
  /// The neighbour that gets frames for `destination` on interface `ifindex`: the destination
  /// itself, or a gateway. Errors: Unavailable if there is no route.
  virtual absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination) = 0;
  /// The interface by which packets to `destination` leave, and their source address, when neither
  /// is given. `ifindex`: the interface that they have to leave by, or 0 for any. Errors:
  /// Unavailable if there is no route.
  virtual absl::StatusOr<KernelRoute> RouteTo(const Gid& destination, int ifindex) = 0;
  /// The MAC of a neighbour, if the kernel knows it now.
  virtual std::optional<Mac> Neighbour(int ifindex, const Gid& address) = 0;
  /// Makes the kernel resolve the neighbour.
  virtual void Probe(int ifindex, const Gid& address) = 0;
};

// Messages of rtnetlink: builds requests, and parses answers and news. Pure.

using Bytes = std::span<const uint8_t>;

/// One request under construction. All requests of the daemon fit into it.
class NetlinkRequest {
 public:
  /// `header` is the fixed part behind the netlink header, such as an rtmsg.
  template <typename Header>
  NetlinkRequest(uint16_t type, uint16_t flags, const Header& header) {
    Start(type, flags, &header, sizeof(header));
  }
  void Add(uint16_t type, const void* value, size_t length);
  /// Adds the address alone: 4 bytes or 16.
  void Add(uint16_t type, const Gid& gid);
  /// Attributes added between Open and Close are nested in an attribute of `type`.
  void Open(uint16_t type);
  void Close();

  /// Returns the request with this sequence number.
  Bytes Finish(uint32_t sequence);

 private:
  static constexpr size_t kMaxBytes = 256;
  void Start(uint16_t type, uint16_t flags, const void* header, size_t length);

  alignas(8) uint8_t bytes_[kMaxBytes] = {};
  size_t length_ = 0;
  size_t open_ = 0;
};

/// A sequence of attributes behind a message's header or nested in another attribute. Their lengths
/// are checked against the available bytes.
class NetlinkAttributes {
 public:
  explicit NetlinkAttributes(Bytes bytes) : bytes_(bytes) {}
  /// The value of the first attribute of `type`; nothing when there is none.
  std::optional<Bytes> Find(uint16_t type) const;
  /// The value as a T; nothing unless it has that size.
  template <typename T>
  std::optional<T> Read(uint16_t type) const {
    const std::optional<Bytes> value = Find(type);
    if (!value || value->size() != sizeof(T)) return std::nullopt;
    T result;
    std::memcpy(&result, value->data(), sizeof(T));
    return result;
  }
  /// The attributes nested in it; empty when it does not exist.
  NetlinkAttributes Nested(uint16_t type) const {
    return NetlinkAttributes(Find(type).value_or(Bytes()));
  }
  /// The value as a text that ends at its first zero byte.
  std::string Text(uint16_t type) const;

 private:
  Bytes bytes_;
};

/// One message of a datagram. `body` is the part behind the netlink header.
struct NetlinkMessage {
  nlmsghdr header{};
  Bytes body;

  /// The fixed part of the body as a T; nothing when the body is shorter.
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

/// Removes the next message from the front of a datagram; nothing at its end, or if it is cut off.
std::optional<NetlinkMessage> TakeMessage(Bytes& datagram);

/// The GID of an address of 4 or 16 bytes.
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
/// Parses an RTM_NEWLINK; nothing unless it is a VLAN on an interface of the same namespace.
std::optional<VlanInterface> ReadVlan(const NetlinkMessage& message);

/// The kernel's news of a neighbour.
struct NeighbourNews {
  int ifindex = 0;
  Gid address;
  std::optional<Mac> mac;    ///< While it is known.
  bool needs_probe = false;  ///< The MAC is unknown, or was not confirmed for a while.
  bool deleted = false;
};
/// Parses an RTM_NEWNEIGH or RTM_DELNEIGH with an IP address.
std::optional<NeighbourNews> ReadNeighbour(const NetlinkMessage& message);

/// What changed since the last read.
struct NetlinkNews {
  bool links = false;   ///< Links or addresses changed.
  bool routes = false;  ///< Routes changed, or news were lost: anything may have changed.
  std::vector<NeighbourNews> neighbours;
};

/// An address of an interface.
struct LinkAddress {
  int ifindex = 0;
  Gid address;
  uint8_t prefix_bits = 128;  ///< As in InterfaceAddress.
};
/// Parses an RTM_NEWADDR; nothing for an address that another host has (RFC 4862, 5.4.5).
std::optional<LinkAddress> ReadAddress(const NetlinkMessage& message);

/// The bytes of the address alone, as the kernel expects it.
Bytes AddressBytes(const Gid& gid);

// Reads the kernel's links, addresses, routes and neighbours in the daemon's network
// namespace.

/// One rtnetlink socket for requests; each call returns with the answer. Control thread.
class Netlink final : public KernelRouting {
 public:
  Netlink();

  // ---- KernelRouting ----
  absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination) override;
  absl::StatusOr<KernelRoute> RouteTo(const Gid& destination, int ifindex) override;
  std::optional<Mac> Neighbour(int ifindex, const Gid& address) override;
  /// Sends a request; without the privilege, a datagram to the neighbour's discard port.
  void Probe(int ifindex, const Gid& address) override;

  /// The 802.1Q interfaces above `ifindex`. Nothing if the kernel gave no complete list; the watch
  /// reports what changed meanwhile.
  std::optional<std::vector<VlanInterface>> VlansAbove(int ifindex);
  /// All addresses of all interfaces, IPv4 first. Nothing: as for VlansAbove.
  std::optional<std::vector<LinkAddress>> Addresses();
  /// Gives the interface an address that may be used at once, without a route to its prefix.
  /// Errors: one line that names the address; PermissionDenied.
  absl::Status AddAddress(int ifindex, const InterfaceAddress& address);

 private:
  struct Answer;

  bool Ask(NetlinkRequest& request, Answer& answer);
  /// `ifindex`: as in RouteTo.
  absl::Status AskForRoute(const Gid& destination, int ifindex, Answer& answer);
  /// Calls `take` for each message of a list. Returns false if the list is incomplete or changed
  /// while the kernel made it, so that an entry may be missing.
  bool List(NetlinkRequest& request, absl::FunctionRef<void(const NetlinkMessage&)> take);
  /// Returns a list of the results of `read`, after a few attempts at most.
  template <typename Item>
  std::optional<std::vector<Item>> ListOf(NetlinkRequest& request,
                                          std::optional<Item> (*read)(const NetlinkMessage&));

  Fd socket_;
  uint32_t sequence_ = 0;
};

/// Opens a socket that becomes readable when links, addresses, routes or neighbours change. Empty
/// if the kernel has none.
Fd OpenNetlinkWatch();

/// Reads news from a watch, up to what one turn of the control thread should take. If more is left,
/// the watch stays readable.
NetlinkNews ReadNetlinkWatch(int fd);

}  // namespace uroce::nic
