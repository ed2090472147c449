// SPDX-License-Identifier: Apache-2.0
// The multicast groups of one port: how often each was joined, and who joins them on Ethernet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "nic/net/address.h"
#include "nic/net/kernel_resources.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

class NetDevice;

/// The groups of one NIC. The kernel joins them, or a host of the daemon's own, which listens here.
/// The NIC outlives the object. Control thread.
class MulticastGroups {
 public:
  /// `interface_of` returns the kernel's interface for the groups of a VLAN, or 0.
  using InterfaceOf = std::function<int(uint16_t vlan_id)>;
  MulticastGroups(const NetDevice& device, KernelGroups::How how, InterfaceOf interface_of);

  /// Joins a group, until Leave was called as often: on Ethernet, where routers and switches may
  /// have to know, and in the port's filter. datapath::Device says which queue pairs get the
  /// packets of the group. Errors: InvalidArgument: not the address of a group; ResourceExhausted;
  /// Unavailable: the kernel refused; Cancelled: the port was removed.
  absl::Status Join(const Gid& group);
  /// Range: Join was called for `group`.
  void Leave(const Gid& group);
  /// Joins all groups on the interfaces and in the VLANs that exist now. Errors: Unavailable.
  absl::Status Refresh();
  /// The port is about to be removed: it leaves its groups, and joins no more.
  void Stop();
  /// Sets the listener for groups that are joined or left.
  void Listen(std::function<void(const Gid& group, bool joined)> listener) {
    listener_ = std::move(listener);
  }

  /// The groups that the port is in, and how often each was joined.
  const std::map<Gid, uint32_t>& joined() const { return joined_; }

 private:
  const NetDevice& device_;
  const InterfaceOf interface_of_;
  std::map<Gid, uint32_t> joined_;
  KernelGroups kernel_;
  std::function<void(const Gid&, bool)> listener_;
  bool is_stopped_ = false;
};

}  // namespace uroce::nic
