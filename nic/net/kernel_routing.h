// SPDX-License-Identifier: Apache-2.0
// Queries the kernel for routes and neighbours.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

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

}  // namespace uroce::nic
