// SPDX-License-Identifier: Apache-2.0
// Runs neighbour resolution and the datagrams of queue pair 1: provides the time of the control
// thread, the kernel, the NICs, and links to the workers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/connections/link_channel.h"
#include "nic/net/netlink.h"
#include "nic/objects/nic.h"
#include "nic/paths/gsi.h"
#include "nic/paths/neighbours.h"

namespace uroce::nic {

/// Control thread.
class PathServices {
 public:
  PathServices(EventLoop& loop, Nic& nic);
  /// Starts a host stack for each port that is a host of its own. Calls `on_addresses` when the
  /// usable addresses of a device have changed.
  void StartHosts(const std::function<void(NicDevice&)>& on_addresses);

  KernelRouting& kernel() { return netlink_; }
  Neighbours& neighbours() { return neighbours_; }
  const Neighbours& neighbours() const { return neighbours_; }
  Gsi& gsi() { return gsi_; }

 private:
  using Channels = std::vector<std::unique_ptr<LinkChannel>>;

  static Channels OpenGsiChannels(EventLoop& loop, Nic& nic);
  static std::vector<Gsi::Port> PortsOf(const Nic& nic, const Channels& channels);

  EventLoop& loop_;
  Nic& nic_;
  Netlink netlink_;
  Channels host_channels_;
  Neighbours neighbours_;
  const Channels gsi_channels_;
  Gsi gsi_;
};

}  // namespace uroce::nic
