// SPDX-License-Identifier: Apache-2.0
// Runs the Host of one port: gives it frames and the time, and passes on what it finds out.
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
    /// Which of the port's addresses may be used has changed.
    std::function<void()> on_addresses;
    /// A neighbour has this MAC now, or, without one, does not answer.
    std::function<void(const NextHop&, const std::optional<Mac>&)> on_neighbour;
  };

  /// `channel` outlives it; `name` is the device's, for the log.
  HostStack(Timers& timers, FrameChannel& channel, std::string name, const HostConfig& config,
            Listener listener);
  ~HostStack();
  HostStack(const HostStack&) = delete;
  HostStack& operator=(const HostStack&) = delete;

  /// Says how the port's link is, from the first time on.
  void OnLink(bool up);
  /// As Host has them.
  absl::StatusOr<NextHop> Route(const Gid& source, const Gid& destination) const;
  NeighbourCache::Answer Find(const NextHop& hop, Mac& mac);
  /// As Host has it.
  void SetGroup(const Gid& group, bool joined);
  NeighbourCache::Use Hold(const NextHop& hop) { return host_.Hold(hop); }
  const Host& host() const { return host_; }

 private:
  /// False: it is malformed.
  bool OnFrame(Bytes frame);
  /// Passes on what the host has to say, and waits for its next deadline.
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
