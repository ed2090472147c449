// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host_stack.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "nic/resources/nic.h"

namespace uroce::nic {

HostStack::HostStack(EventLoop& loop, datapath::Worker& worker, datapath::HostLink& link,
                     std::string name, const HostConfig& config, Listener listener)
    : loop_(loop),
      worker_(worker),
      link_(link),
      name_(std::move(name)),
      listener_(std::move(listener)),
      host_(config) {
  watch_ = loop_.Watch(link_.wait_fd(), EPOLLIN, [this] { OnFrames(); });
}

HostStack::~HostStack() {
  loop_.Forget(watch_);
  loop_.Cancel(pause_);
  loop_.Cancel(timer_);
}

void HostStack::OnLink(bool up) {
  host_.OnLink(up, Nic::Now());
  Pump();
  listener_.on_addresses();
}

absl::StatusOr<NextHop> HostStack::Route(const Gid& source, const Gid& destination) const {
  return host_.Route(source, destination);
}

NeighbourCache::Answer HostStack::Find(const NextHop& hop, Mac& mac) {
  const NeighbourCache::Answer answer = host_.Find(hop, Nic::Now(), mac);
  Pump();
  return answer;
}

void HostStack::SetGroup(const Gid& group, bool joined) {
  if (joined) {
    host_.Join(group, Nic::Now());
  } else {
    host_.Leave(group);
  }
  Pump();
}

void HostStack::OnFrames() {
  link_.ClearWake();
  const Nanos now = Nic::Now();
  int taken = 0;
  for (; taken < kFramesPerTurn; ++taken) {
    const Bytes frame = link_.inbound().Front();
    if (frame.empty()) break;
    Count(host_.OnFrame(frame, now));
    link_.inbound().Pop();
  }
  Pump();
  if (taken < kFramesPerTurn && link_.PrepareSleep()) return;
  loop_.Cancel(pause_);
  pause_ = loop_.After(kPause, [this] { OnFrames(); });
}

void HostStack::Count(FrameResult result) {
  if (result == FrameResult::kTaken || result == FrameResult::kNotForUs) return;
  std::atomic<uint64_t>& refused = link_.counters().rx_refused;
  refused.store(refused.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void HostStack::Pump() {
  bool sent = false;
  while (const std::optional<Frame> frame = host_.PollFrame()) sent |= link_.Send(*frame);
  if (sent) worker_.Wake();
  while (const std::optional<HostEvent> event = host_.PollEvent()) Tell(*event);
  SetTimer();
}

void HostStack::Tell(const HostEvent& event) {
  const std::string address = FormatAddress(event.who.address);
  switch (event.kind) {
    case HostEvent::Kind::kAddressUsable:
      return listener_.on_addresses();
    case HostEvent::Kind::kAddressLost:
      spdlog::warn("{}: {} has the address {}, which is not used here", name_, FormatMac(event.mac),
                   address);
      return listener_.on_addresses();
    case HostEvent::Kind::kAddressContested:
      spdlog::warn("{}: {} uses our address {} too", name_, FormatMac(event.mac), address);
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
  loop_.Cancel(timer_);
  timer_at_ = deadline;
  if (deadline == kNever) return;
  const Nanos now = Nic::Now();
  timer_ = loop_.After(deadline > now ? deadline - now : Nanos(0), [this] {
    timer_at_ = kNever;
    host_.OnDeadline(Nic::Now());
    Pump();
  });
}

}  // namespace uroce::nic
