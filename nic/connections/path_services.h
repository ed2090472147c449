// SPDX-License-Identifier: Apache-2.0
// Runs neighbours and the GSI on the control thread, and gives them a channel for frames by the
// workers.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "nic/base/event_loop.h"
#include "nic/net/netlink.h"
#include "nic/objects/nic.h"
#include "nic/paths/gsi.h"
#include "nic/paths/host_stack.h"
#include "nic/paths/neighbours.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {

/// A FrameChannel over a link to a device's worker. Takes a bounded number of frames per turn of
/// the loop, so that a flood delays other work of the control thread little. Control thread.
class LinkChannel final : public FrameChannel {
 public:
  struct Pace {
    int frames_per_turn = 64;
    Nanos pause{0};  ///< Between turns when frames are left over.
  };

  /// `worker` serves `link`; both outlive it.
  LinkChannel(EventLoop& loop, datapath::FrameLink& link, datapath::Worker& worker, Pace pace);
  ~LinkChannel() override;
  LinkChannel(const LinkChannel&) = delete;
  LinkChannel& operator=(const LinkChannel&) = delete;

  void SetReceiver(Receiver receiver) override;
  bool has_room() const override { return !link_.outbound().Reserve().empty(); }
  void Send(std::span<const uint8_t> frame) override;
  bool is_idle() const override { return link_.outbound().empty(); }

 private:
  void OnFrames();
  void Stop();

  EventLoop& loop_;
  datapath::FrameLink& link_;
  datapath::Worker& worker_;
  const Pace pace_;
  Receiver receiver_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id again_ = 0;
};

/// Gives neighbours and the GSI the time of the control thread, the kernel, the NICs, and links to
/// the workers. Control thread.
class PathServices {
 public:
  PathServices(EventLoop& loop, Nic& nic);
  /// Starts a host stack for each port that is a host of its own. Calls `on_addresses` when the
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
