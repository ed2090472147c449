// SPDX-License-Identifier: Apache-2.0
// Finds out whether another NIC, of this daemon or another, serves the same address of the kernel.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "nic/base/fd.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// The addresses of one NIC on interfaces of the kernel. Each has a sign that others can see: a
/// Unix socket to which nobody connects, bound to the abstract name
///     uroced/address/IFINDEX/ADDRESS/NUMBER
/// Such names belong to a network namespace as interfaces do, and go with the process that has
/// them, however it ends. Several NICs with one address have signs of different numbers. Packet
/// sockets of other programs have none. Control thread.
class AddressSigns {
 public:
  /// As many NICs with one address are told apart.
  static constexpr int kNumbers = 8;

  /// An address on an interface, by its index.
  using Place = std::pair<int, Gid>;
  /// Puts signs on these places and removes all others. Returns the places that are new and on
  /// which another NIC has a sign. No sign where the kernel refuses a socket.
  std::vector<Place> Show(const std::set<Place>& places);

 private:
  std::map<Place, Fd> signs_;
};

}  // namespace uroce::nic
