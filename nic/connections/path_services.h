// SPDX-License-Identifier: Apache-2.0
// Runs neighbours and the GSI on the control thread, and gives them a channel for frames by the
// workers.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "nic/base/event_loop.h"
#include "nic/net/netlink.h"
#include "nic/paths/gsi.h"
#include "nic/paths/neighbours.h"

namespace uroce::nic {

class LinkChannel;
class Nic;
class NicDevice;

/// Gives neighbours and the GSI the time of the control thread, the kernel, the NICs, and links to
/// the workers. Control thread.
class PathServices {
 public:
  PathServices(EventLoop& loop, Nic& nic);
  ~PathServices();
  PathServices(const PathServices&) = delete;
  PathServices& operator=(const PathServices&) = delete;
  /// Starts a host stack for each port that is a host itself. Calls `on_addresses` when the
  /// usable addresses of a device have changed.
  void StartHosts(std::function<void(NicDevice&)> on_addresses);
  /// A device has come. After StartHosts.
  void AddDevice(NicDevice& device);
  /// A device is no longer there (Nic::RemoveDevice), and is about to be destroyed.
  void RemoveDevice(NicDevice& device);

  KernelRouting& kernel() { return netlink_; }
  Neighbours& neighbours() { return neighbours_; }
  const Neighbours& neighbours() const { return neighbours_; }
  Gsi& gsi() { return gsi_; }

 private:
  using Channels = std::map<const NicDevice*, std::unique_ptr<LinkChannel>>;

  void OpenGsi(NicDevice& device);
  void StartHost(NicDevice& device);

  EventLoop& loop_;
  Nic& nic_;
  Netlink netlink_;
  Channels host_channels_;
  Neighbours neighbours_;
  Channels gsi_channels_;
  Gsi gsi_;
  std::function<void(NicDevice&)> on_addresses_;
};

}  // namespace uroce::nic
