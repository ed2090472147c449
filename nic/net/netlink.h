// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of routes and neighbours in the daemon's network namespace.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "nic/resources/fd.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// One rtnetlink socket for questions; the kernel answers them within the call. Control thread.
class Netlink {
 public:
  Netlink();

  /// Who gets frames for `destination` out of interface `ifindex`: itself, or a gateway.
  /// Errors: Unavailable without a route there.
  absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination);
  /// The MAC of a neighbour, if the kernel knows it now.
  std::optional<Mac> Neighbour(int ifindex, const Gid& address);
  /// Has the kernel look for the neighbour: by request, or with less privilege by a datagram to
  /// its discard port.
  void Probe(int ifindex, const Gid& address);

 private:
  struct Request;
  struct Answer;

  bool Ask(Request& request, Answer& answer);

  Fd socket_;
  uint32_t sequence_ = 0;
};

/// A socket that becomes readable when links or addresses change. Empty: the kernel has none.
Fd OpenNetlinkWatch();
/// Reads all that it holds.
void DrainNetlinkWatch(int fd);

}  // namespace uroce::nic
