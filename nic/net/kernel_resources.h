// SPDX-License-Identifier: Apache-2.0
// What a NIC holds in the kernel beside its port: TAP interfaces, memberships of multicast groups,
// and the signs by which NICs with one address find each other.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/net/address.h"
#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

// ---- signs of addresses ----

/// The addresses of one NIC on interfaces of the kernel. Each has a sign that others can see: a
/// Unix socket to which no program connects, bound to the abstract name
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

// ---- multicast groups ----
// The kernel sends IGMP and MLD, and accepts the groups' frames in the filter of the interface.

/// The groups of one port. Control thread.
class KernelGroups {
 public:
  enum class How : uint8_t {
    kJoin,    ///< The kernel is the port's host.
    kFilter,  ///< The daemon is: the interface only accepts the frames.
  };
  explicit KernelGroups(How how) : how_(how) {}

  /// A group on an interface, by its index.
  using Place = std::pair<int, Gid>;
  /// Joins the groups in `wanted` and leaves all others. Errors: Unavailable when the kernel
  /// refuses some; the next call tries these again. All others are joined.
  absl::Status Set(const std::set<Place>& wanted);

 private:
  const How how_;
  std::map<Place, Fd> joined_;
};

// ---- TAP interfaces ----

/// Opens the TAP `name`, creates it unless it exists, sets its MAC `mac` and an MTU of `mtu_bytes`,
/// and brings it up. One read or write moves one frame; reads do not block. A TAP created here is
/// removed when the fd is closed. Errors: one line that begins with the name.
absl::StatusOr<Fd> OpenTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes);

/// Opens a TAP that only holds addresses: the kernel treats them as its own, and delivers what
/// programs of this host send to each other at them. The frames that it sends are not read, and the
/// kernel's routes do not change. Errors: as for OpenTap.
absl::StatusOr<Fd> OpenAddressTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes,
                                  const std::vector<InterfaceAddress>& addresses);

/// Tells the kernel whether a cable is at the TAP. Kernels before 5.0 always see a cable.
void SetTapCarrier(const Fd& tap, bool has_carrier);

}  // namespace uroce::nic
