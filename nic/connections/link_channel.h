// SPDX-License-Identifier: Apache-2.0
// A channel for frames between the control thread and a device, over a link to the device's worker.
#pragma once

#include "nic/base/event_loop.h"
#include "nic/paths/frame_channel.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {

/// Takes a bounded number of frames per turn of the loop, so that a flood delays other work of the
/// control thread little. Control thread.
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

}  // namespace uroce::nic
