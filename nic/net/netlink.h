// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's links, addresses, routes and neighbours in the daemon's network
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
