// SPDX-License-Identifier: Apache-2.0
// Connects the host of a port to the network: the channel for frames that are not RoCE, and the
// timer of the host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/net/host/host.h"

namespace uroce::nic {

/// A channel for frames between the control thread and one device. Implemented on a link to the
/// device's worker (nic/connections/path_services), and by tests. Control thread.
class FrameChannel {
 public:
  /// Takes a received frame. Returns false if it is malformed, which the channel counts.
  using Receiver = std::function<bool(std::span<const uint8_t> frame)>;

  virtual ~FrameChannel() = default;
  /// Null: frames are not delivered. The receiver is never called from within a channel method.
  virtual void SetReceiver(Receiver receiver) = 0;
  /// Whether there is room to queue a frame.
  virtual bool has_room() const = 0;
  /// Queues a frame for the port. Without room the frame is lost and counted.
  virtual void Send(std::span<const uint8_t> frame) = 0;
  /// Whether all frames sent have left for the port.
  virtual bool is_idle() const = 0;
};

/// Runs the Host of one port: gives it frames and the time, and passes on its events. Control
/// thread.
class HostStack {
 public:
  struct Listener {
    /// The set of the port's usable addresses has changed.
    std::function<void()> on_addresses;
    /// A neighbour has this MAC now; without a MAC, it does not answer.
    std::function<void(const NextHop&, const std::optional<Mac>&)> on_neighbour;
  };

  /// `channel` outlives the object; `name` is the device's, for the log.
  HostStack(Timers& timers, FrameChannel& channel, std::string name, const HostConfig& config,
            Listener listener);
  ~HostStack();
  HostStack(const HostStack&) = delete;
  HostStack& operator=(const HostStack&) = delete;

  /// Reports the state of the port's link. The first call starts the host.
  void OnLink(bool up);
  /// These forward to Host.
  absl::StatusOr<NextHop> Route(const Gid& source, const Gid& destination) const;
  NeighbourCache::Answer Find(const NextHop& hop, Mac& mac);
  /// Forwards to Host.
  void SetGroup(const Gid& group, bool joined);
  NeighbourCache::Use Hold(const NextHop& hop) { return host_.Hold(hop); }
  const Host& host() const { return host_; }

 private:
  /// Returns false for a malformed frame.
  bool OnFrame(Bytes frame);
  /// Passes on the frames and events of the host, and sets the timer for its next deadline.
  void Pump();
  void Tell(const HostEvent& event);
  void SetTimer();

  Timers& timers_;
  FrameChannel& channel_;
  const std::string name_;
  const Listener listener_;
  Host host_;
  Timers::Id timer_ = 0;
  Nanos timer_at_ = kNever;
};

}  // namespace uroce::nic
