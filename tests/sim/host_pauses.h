// SPDX-License-Identifier: Apache-2.0
// Hosts without a CPU: for a while nothing of such a host runs, and what arrives waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// A host that wakes up takes the waiting frames burst by burst, with its own turns
/// between, as a worker does. So its timers run before it has read all that arrived in
/// time.
class HostPauses {
 public:
  static constexpr Nanos kLeast{1'000'000};
  static constexpr uint32_t kMostMore = 49'000'000;
  static constexpr uint32_t kBurst = 32;
  static constexpr Nanos kBetweenBursts{1'000};

  /// `chance`: in a thousand, for each turn.
  HostPauses(uint32_t chance, uint32_t hosts, uint64_t seed)
      : chance_(chance), hosts_(hosts), random_(seed) {}

  bool any() const { return chance_ != 0; }
  bool Sleeps(uint32_t host, Nanos now) const { return hosts_[host].wakes > now; }
  Nanos Wakes(uint32_t host) const { return hosts_[host].wakes; }
  /// A turn of `host` has ended.
  void OnTurn(uint32_t host, Nanos now) {
    if (random_.Happens(chance_))
      hosts_[host].wakes = now + kLeast + Nanos(random_.Below(kMostMore));
  }
  /// Keeps a frame for a host that sleeps, or that has not yet read earlier frames.
  void Keep(Arrival arrival) { hosts_[arrival.host].waiting.push_back(std::move(arrival)); }
  bool Waits(uint32_t host) const { return !hosts_[host].waiting.empty(); }
  bool Take(uint32_t host, Arrival& arrival) {
    std::deque<Arrival>& waiting = hosts_[host].waiting;
    if (waiting.empty()) return false;
    arrival = std::move(waiting.front());
    waiting.pop_front();
    return true;
  }
  /// When the next waiting frame is to be taken.
  Nanos NextTake(Nanos now) const {
    Nanos next = kNever;
    for (const Host& host : hosts_) {
      if (!host.waiting.empty()) next = std::min(next, std::max(host.wakes, now + kBetweenBursts));
    }
    return next;
  }

 private:
  struct Host {
    Nanos wakes;
    std::deque<Arrival> waiting;
  };

  uint32_t chance_;
  std::vector<Host> hosts_;
  Random random_;
};

}  // namespace uroce::sim
