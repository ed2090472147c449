// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for links, addresses, routes and neighbours in the daemon's network namespace,
// and reads its news about them: rtnetlink, by libmnl.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/net/address.h"
#include "pipeline/base/types.h"

struct mnl_socket;
struct nlmsghdr;

namespace uroce::nic {

// ---- what the kernel knows ----

/// How packets to a destination leave the host.
struct KernelRoute {
  int ifindex = 0;
  Gid source;
  bool is_local = false;  ///< The destination is an address of this host.
};

/// An 802.1Q interface above another one.
struct VlanInterface {
  int ifindex = 0;
  int lower_ifindex = 0;
  std::string name;
  uint16_t vlan_id = 0;
  Mac mac{};
  friend bool operator==(const VlanInterface&, const VlanInterface&) = default;
};

/// An address of an interface.
struct LinkAddress {
  int ifindex = 0;
  Gid address;
  uint8_t prefix_bits = 128;  ///< As in InterfaceAddress.
};

/// The kernel's news of a neighbour.
struct NeighbourNews {
  int ifindex = 0;
  Gid address;
  std::optional<Mac> mac;    ///< While it is known.
  bool needs_probe = false;  ///< The MAC is unknown, or was not confirmed for a while.
  bool deleted = false;
};

/// What changed since the last read.
struct NetlinkNews {
  bool links = false;   ///< Links or addresses changed.
  bool routes = false;  ///< Routes changed, or news were lost: anything may have changed.
  std::vector<NeighbourNews> neighbours;
};

// ---- messages ----
// Pure. Lengths are checked against the bytes of the message. The caller has checked that the
// message itself is complete.

/// Parses an RTM_NEWLINK; nothing unless it is a VLAN on an interface of the same namespace.
std::optional<VlanInterface> ReadVlan(const nlmsghdr& message);
/// Parses an RTM_NEWADDR; nothing for an address that another host has (RFC 4862, 5.4.5).
std::optional<LinkAddress> ReadAddress(const nlmsghdr& message);
/// Parses an RTM_NEWNEIGH or RTM_DELNEIGH with an IP address.
std::optional<NeighbourNews> ReadNeighbour(const nlmsghdr& message);
/// Adds the news of a datagram: of its messages, up to one that is cut off.
void AddNews(std::span<const uint8_t> datagram, NetlinkNews& news);

// ---- sockets ----

/// Queries the kernel for routes and neighbours. Implemented by Netlink, and by tests. Calls return
/// the answer directly. Control thread.
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

/// Closes a socket of libmnl.
struct MnlSocketCloser {
  void operator()(mnl_socket* socket) const;
};
using MnlSocket = std::unique_ptr<mnl_socket, MnlSocketCloser>;

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
  class Request;
  struct Answer;

  bool Send(Request& request);
  bool Ask(Request& request, Answer& answer);
  /// `ifindex`: as in RouteTo.
  absl::Status AskForRoute(const Gid& destination, int ifindex, Answer& answer);
  /// Returns the items of a list that `read` parses. Nothing if the list is incomplete or changed
  /// while the kernel made it, so that an item may be missing.
  template <typename Item>
  std::optional<std::vector<Item>> List(Request& request,
                                        std::optional<Item> (*read)(const nlmsghdr&));
  /// As List, after a few attempts at most.
  template <typename Item>
  std::optional<std::vector<Item>> ListOf(Request& request,
                                          std::optional<Item> (*read)(const nlmsghdr&));

  MnlSocket socket_;
  uint32_t sequence_ = 0;
};

/// A socket that becomes readable when links, addresses, routes or neighbours change. Control
/// thread.
class NetlinkWatch {
 public:
  NetlinkWatch();
  /// -1 if the kernel refuses such a socket.
  int fd() const;
  /// Reads news, up to what one turn of the control thread should take. If more is left, the socket
  /// stays readable.
  NetlinkNews Read();

 private:
  MnlSocket socket_;
};

}  // namespace uroce::nic
