// SPDX-License-Identifier: Apache-2.0
// Questions to the kernel about routes and neighbours.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// A way out of the host.
struct KernelRoute {
  int ifindex = 0;
  Gid source;
  bool is_local = false;  ///< The destination is the host's own.
};

/// Implemented by Netlink, and by tests. Answers come within the call. Control thread.
class KernelRouting {
 public:
  virtual ~KernelRouting() = default;
  /// Who gets frames for `destination` out of interface `ifindex`: itself, or a gateway.
  /// Errors: Unavailable without a route there.
  virtual absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination) = 0;
  /// Which interface packets to `destination` leave by, and from which address, where nobody has
  /// said so. `ifindex`: that they have to leave by, or 0.
  /// Errors: Unavailable without a route there.
  virtual absl::StatusOr<KernelRoute> RouteTo(const Gid& destination, int ifindex) = 0;
  /// The MAC of a neighbour, if the kernel knows it now.
  virtual std::optional<Mac> Neighbour(int ifindex, const Gid& address) = 0;
  /// Has the kernel look for the neighbour.
  virtual void Probe(int ifindex, const Gid& address) = 0;
};

}  // namespace uroce::nic
