// SPDX-License-Identifier: Apache-2.0
// Chooses the source address of packets to a destination when the program has not chosen
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "nic/net/net_device.h"
#include "nic/net/netlink.h"

namespace uroce::nic {

/// An address of one of the daemon's devices.
struct SourceAddress {
  const NetDevice* device = nullptr;
  uint16_t vlan_id = 0;
  Gid address;
};

/// Control thread.
class SourceChoice {
 public:
  SourceChoice(NetDevices devices, KernelRouting& kernel)
      : devices_(std::move(devices)), kernel_(kernel) {}

  /// Devices come and go. A device is removed before it is destroyed.
  void AddDevice(const NetDevice& device) { devices_.push_back(&device); }
  void RemoveDevice(const NetDevice& device) { std::erase(devices_, &device); }

  /// The device that has the address. `ifindex`: the kernel's interface, if the address is
  /// link-local and the program has named the interface, or 0.
  std::optional<SourceAddress> FindOwner(const Gid& address, int ifindex) const;
  /// Chooses the source for a destination. The two ends of an in-process wire reach each other by
  /// the wire, and an own address is reached from itself. A program that uses devices (`used`), the
  /// owner of the destination and not the other end of its wire, reaches the owner from itself,
  /// as with a kernel. Otherwise the order is: on-link prefixes
  /// of ports that are their own hosts, routes of the kernel, gateways of such ports. An address of
  /// the host as a whole (cm::IsOfHost) stands for an address of the first device with a link.
  /// Errors: Unavailable: there is no route; NotFound: the route's interface belongs to no device,
  /// or no device has an address of the family.
  absl::StatusOr<SourceAddress> Choose(const Gid& destination, int ifindex,
                                       std::span<const NetDevice* const> used = {});

 private:
  absl::StatusOr<SourceAddress> OfHost(const Gid& destination) const;
  std::optional<SourceAddress> OtherEnd(const SourceAddress& owner) const;
  std::optional<SourceAddress> OnLinkOfOwnHost(const Gid& destination) const;
  std::optional<SourceAddress> ByRouteOfOwnHost(const Gid& destination) const;
  absl::StatusOr<SourceAddress> AskKernel(const Gid& destination, int ifindex);
  std::optional<SourceAddress> FindOnInterface(int ifindex, const Gid& preferred) const;

  NetDevices devices_;
  KernelRouting& kernel_;
};

}  // namespace uroce::nic
