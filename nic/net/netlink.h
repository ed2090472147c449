// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of links, addresses, routes and neighbours in the daemon's network
// namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/net/address.h"
#include "nic/net/kernel_routing.h"
#include "nic/net/netlink_message.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// One rtnetlink socket for questions; the kernel answers them within the call. Control thread.
class Netlink final : public KernelRouting {
 public:
  Netlink();

  // ---- KernelRouting ----
  absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination) override;
  absl::StatusOr<KernelRoute> RouteTo(const Gid& destination, int ifindex) override;
  std::optional<Mac> Neighbour(int ifindex, const Gid& address) override;
  /// By request, or with less privilege by a datagram to the neighbour's discard port.
  void Probe(int ifindex, const Gid& address) override;

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
  /// `ifindex`: as of RouteTo.
  absl::Status AskForRoute(const Gid& destination, int ifindex, Answer& answer);
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

/// Takes what a watch holds, but not more than a turn of the control thread should take: the rest
/// keeps it readable.
NetlinkNews ReadNetlinkWatch(int fd);

}  // namespace uroce::nic
