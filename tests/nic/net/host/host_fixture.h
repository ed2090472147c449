// SPDX-License-Identifier: Apache-2.0
// Hosts on an Ethernet of the test's, in its time: a frame reaches everybody at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nic/net/address.h"
#include "nic/net/host/host.h"

namespace uroce::nic {

constexpr Mac kMacA{0x02, 0, 0, 0, 0, 0x0a};
constexpr Mac kMacB{0x02, 0, 0, 0, 0, 0x0b};
constexpr Mac kMacC{0x02, 0, 0, 0, 0, 0x0c};
constexpr Nanos kMilli{1'000'000};
constexpr Nanos kSecond{1'000'000'000};

inline InterfaceAddress Addr(const char* text, uint16_t vlan_id = 0) {
  InterfaceAddress address = ParseInterfaceAddress(text).value();
  address.vlan_id = vlan_id;
  return address;
}
inline Gid G(const char* text) { return Addr(text).gid; }

/// A shared medium, and what was said on it.
class Ethernet {
 public:
  Host& Add(const HostConfig& config) {
    hosts_.push_back(std::make_unique<Host>(config));
    events_.emplace_back();
    return *hosts_.back();
  }
  Nanos now() const { return now_; }
  /// Everything that was sent, oldest first.
  std::vector<Frame> frames;
  /// False: the frame is lost.
  std::function<bool(const Frame&)> filter;

  void LinkUp(Host& host) {
    host.OnLink(true, now_);
    Settle();
  }
  /// Brings a frame that no host has sent to all hosts.
  void Inject(const Frame& frame) {
    Deliver(frame, nullptr);
    Settle();
  }
  void Run(Nanos duration) {
    const Nanos end = now_ + duration;
    while (true) {
      Nanos next = end;
      for (const auto& host : hosts_) next = std::min(next, host->NextDeadline());
      now_ = std::max(now_, next);
      for (const auto& host : hosts_) host->OnDeadline(now_);
      Settle();
      if (now_ >= end) return;
    }
  }
  /// Delivers what the hosts have to say until all are quiet.
  void Settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < hosts_.size(); ++i) {
        while (const auto frame = hosts_[i]->PollFrame()) {
          moved = true;
          frames.push_back(*frame);
          if (!filter || filter(*frame)) Deliver(*frame, hosts_[i].get());
        }
        while (const auto event = hosts_[i]->PollEvent()) events_[i].push_back(*event);
      }
    }
  }
  std::vector<HostEvent> TakeEvents(const Host& host) {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].get() == &host) return std::exchange(events_[i], {});
    }
    return {};
  }
  size_t Count(const std::vector<HostEvent>& events, HostEvent::Kind kind) {
    return std::count_if(events.begin(), events.end(),
                         [kind](const HostEvent& event) { return event.kind == kind; });
  }

 private:
  void Deliver(const Frame& frame, const Host* from) {
    for (const auto& host : hosts_) {
      if (host.get() != from) host->OnFrame(frame, now_);
    }
  }

  Nanos now_{1'000'000'000};
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::vector<HostEvent>> events_;
};

}  // namespace uroce::nic
