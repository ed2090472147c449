// SPDX-License-Identifier: Apache-2.0
// The Host of one port, run: frames from and to its worker, the time, and what it finds out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nic/control/event_loop.h"
#include "nic/net/host/host.h"
#include "pipeline/datapath/host_link.h"
#include "pipeline/datapath/worker.h"

namespace uroce::nic {

/// Control thread. Takes a bounded number of frames per turn of the loop: a flood costs it little
/// and the rest of the control thread nothing.
class HostStack {
 public:
  struct Listener {
    /// Which of the port's addresses may be used has changed.
    std::function<void()> on_addresses;
    /// A neighbour has this MAC now, or, without one, does not answer.
    std::function<void(const NextHop&, const std::optional<Mac>&)> on_neighbour;
  };

  /// `link` and `worker` outlive it; `name` is the device's, for the log.
  HostStack(EventLoop& loop, datapath::Worker& worker, datapath::HostLink& link, std::string name,
            const HostConfig& config, Listener listener);
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
  static constexpr int kFramesPerTurn = 64;
  static constexpr Nanos kPause{1'000'000};  ///< Between turns that leave frames behind.

  void OnFrames();
  void Count(FrameResult result);
  /// Passes on what the host has to say, and waits for its next deadline.
  void Pump();
  void Tell(const HostEvent& event);
  void SetTimer();

  EventLoop& loop_;
  datapath::Worker& worker_;
  datapath::HostLink& link_;
  const std::string name_;
  const Listener listener_;
  Host host_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id pause_ = 0;
  EventLoop::Id timer_ = 0;
  Nanos timer_at_ = kNever;
};

}  // namespace uroce::nic
