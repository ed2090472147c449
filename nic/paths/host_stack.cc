// SPDX-License-Identifier: Apache-2.0
#include "nic/paths/host_stack.h"

#include <utility>

#include "nic/base/log.h"
#include "nic/net/address.h"

namespace uroce::nic {

HostStack::HostStack(Timers& timers, FrameChannel& channel, std::string name,
                     const HostConfig& config, Listener listener)
    : timers_(timers),
      channel_(channel),
      name_(std::move(name)),
      listener_(std::move(listener)),
      host_(config) {
  channel_.SetReceiver([this](Bytes frame) { return OnFrame(frame); });
}

HostStack::~HostStack() {
  channel_.SetReceiver(nullptr);
  timers_.Cancel(timer_);
}

void HostStack::OnLink(bool up) {
  host_.OnLink(up, timers_.Now());
  Pump();
  listener_.on_addresses();
}

absl::StatusOr<NextHop> HostStack::Route(const Gid& source, const Gid& destination) const {
  return host_.Route(source, destination);
}

NeighbourCache::Answer HostStack::Find(const NextHop& hop, Mac& mac) {
  const NeighbourCache::Answer answer = host_.Find(hop, timers_.Now(), mac);
  Pump();
  return answer;
}

void HostStack::SetGroup(const Gid& group, bool joined) {
  if (joined) {
    host_.Join(group, timers_.Now());
  } else {
    host_.Leave(group);
  }
  Pump();
}

bool HostStack::OnFrame(Bytes frame) {
  const FrameResult result = host_.OnFrame(frame, timers_.Now());
  Pump();
  return result == FrameResult::kTaken || result == FrameResult::kNotForUs;
}

void HostStack::Pump() {
  while (const std::optional<Frame> frame = host_.PollFrame()) channel_.Send(*frame);
  while (const std::optional<HostEvent> event = host_.PollEvent()) Tell(*event);
  SetTimer();
}

void HostStack::Tell(const HostEvent& event) {
  const std::string address = FormatAddress(event.who.address);
  switch (event.kind) {
    case HostEvent::Kind::kAddressUsable:
      return listener_.on_addresses();
    case HostEvent::Kind::kAddressLost:
      LogWarning("{}: {} has the address {}, which is not used here", name_, FormatMac(event.mac),
                 address);
      return listener_.on_addresses();
    case HostEvent::Kind::kAddressContested:
      LogWarning("{}: {} uses our address {} too", name_, FormatMac(event.mac), address);
      return;
    case HostEvent::Kind::kNeighbour:
      return listener_.on_neighbour(event.who, event.mac);
    case HostEvent::Kind::kNeighbourSilent:
      return listener_.on_neighbour(event.who, std::nullopt);
  }
}

void HostStack::SetTimer() {
  const Nanos deadline = host_.NextDeadline();
  if (deadline == timer_at_) return;
  timers_.Cancel(timer_);
  timer_at_ = deadline;
  if (deadline == kNever) return;
  const Nanos now = timers_.Now();
  timer_ = timers_.After(deadline > now ? deadline - now : Nanos(0), [this] {
    timer_at_ = kNever;
    host_.OnDeadline(timers_.Now());
    Pump();
  });
}

}  // namespace uroce::nic
