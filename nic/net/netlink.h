// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of links, addresses, routes and neighbours in the daemon's network
// namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nic/net/address.h"
#include "nic/net/netlink_message.h"
#include "nic/resources/fd.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// A way out of the host.
struct KernelRoute {
  int ifindex = 0;
  Gid source;
  bool is_local = false;  ///< The destination is the host's own.
};

/// One rtnetlink socket for questions; the kernel answers them within the call. Control thread.
class Netlink {
 public:
  Netlink();

  /// Who gets frames for `destination` out of interface `ifindex`: itself, or a gateway.
  /// Errors: Unavailable without a route there.
  absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination);
  /// Which interface packets to `destination` leave by, and from which address, where nobody has
  /// said so. `ifindex`: that they have to leave by, or 0.
  /// Errors: Unavailable without a route there.
  absl::StatusOr<KernelRoute> RouteTo(const Gid& destination, int ifindex);
  /// The MAC of a neighbour, if the kernel knows it now.
  std::optional<Mac> Neighbour(int ifindex, const Gid& address);
  /// Has the kernel look for the neighbour: by request, or with less privilege by a datagram to
  /// its discard port.
  void Probe(int ifindex, const Gid& address);
  /// The 802.1Q interfaces above `ifindex`. Nothing: the kernel gave no whole list; what changed
  /// meanwhile comes as news.
  std::optional<std::vector<VlanInterface>> VlansAbove(int ifindex);
  /// All addresses of all interfaces, IPv4 first. Nothing: as above.
  std::optional<std::vector<LinkAddress>> Addresses();
  /// Gives the interface an address that may be used at once, without a route to its prefix.
  /// Errors: one line that names the address; PermissionDenied.
  absl::Status AddAddress(int ifindex, const InterfaceAddress& address);

 private:
  struct Answer;

  bool Ask(NetlinkRequest& request, Answer& answer);
  /// Shows each message of a list to `take`. False: it is not whole, or what it lists changed while
  /// it was made, so that something may be missing.
  bool List(NetlinkRequest& request, absl::FunctionRef<void(const NetlinkMessage&)> take);
  /// A list of what `read` makes of its messages, in a few attempts.
  template <typename Item>
  std::optional<std::vector<Item>> ListOf(NetlinkRequest& request,
                                          std::optional<Item> (*read)(const NetlinkMessage&));

  Fd socket_;
  uint32_t sequence_ = 0;
};

/// A socket that becomes readable when links, addresses, routes or neighbours change. Empty: the
/// kernel has none.
Fd OpenNetlinkWatch();

/// What changed since the last look.
struct NetlinkNews {
  bool links = false;   ///< Or addresses.
  bool routes = false;  ///< Or anything else may have changed: news were lost.
  std::vector<NeighbourNews> neighbours;
};
/// Takes what a watch holds, but not more than a turn of the control thread should take: the rest
/// keeps it readable.
NetlinkNews ReadNetlinkWatch(int fd);

}  // namespace uroce::nic
