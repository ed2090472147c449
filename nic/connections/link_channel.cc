// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/link_channel.h"

#include <sys/epoll.h>

#include <utility>

#include "pipeline/base/counters.h"

namespace uroce::nic {

LinkChannel::LinkChannel(EventLoop& loop, datapath::FrameLink& link, datapath::Worker& worker,
                         Pace pace)
    : loop_(loop), link_(link), worker_(worker), pace_(pace) {}

LinkChannel::~LinkChannel() { Stop(); }

void LinkChannel::Stop() {
  loop_.Forget(watch_);
  loop_.Cancel(again_);
}

void LinkChannel::SetReceiver(Receiver receiver) {
  Stop();
  receiver_ = std::move(receiver);
  if (receiver_) watch_ = loop_.Watch(link_.wait_fd(), EPOLLIN, [this] { OnFrames(); });
}

void LinkChannel::Send(std::span<const uint8_t> frame) {
  if (link_.Send(frame)) worker_.Wake();
}

// Frames beyond a turn's share wait, so that other work is not delayed.
void LinkChannel::OnFrames() {
  link_.ClearWake();
  int taken = 0;
  for (; taken < pace_.frames_per_turn; ++taken) {
    const std::span<const uint8_t> frame = link_.inbound().Front();
    if (frame.empty()) break;
    if (!receiver_(frame)) Count(link_.counters().rx_refused);
    link_.inbound().Pop();
  }
  if (taken < pace_.frames_per_turn && link_.PrepareSleep()) return;
  loop_.Cancel(again_);
  again_ = loop_.After(pace_.pause, [this] { OnFrames(); });
}

}  // namespace uroce::nic
