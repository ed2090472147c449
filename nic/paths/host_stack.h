// SPDX-License-Identifier: Apache-2.0
// Runs the Host of one port: gives it frames and the time, and passes on its events.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nic/base/timers.h"
#include "nic/net/host/host.h"
#include "nic/paths/frame_channel.h"

namespace uroce::nic {

/// Control thread.
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
