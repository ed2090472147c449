// SPDX-License-Identifier: Apache-2.0
// A network of hosts that loses, doubles, delays, reorders, spoils and holds up frames, in virtual
// time, from a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// Chances in a thousand, of each frame.
struct NetworkFaults {
  uint32_t drop = 0;
  uint32_t duplicate = 0;
  uint32_t delay = 0;    ///< For itself: it arrives behind later ones.
  uint32_t corrupt = 0;  ///< One bit.
  uint32_t pause = 0;    ///< Its link stands still for a while.
  bool reorders() const { return delay != 0 || duplicate != 0; }
  bool loses() const { return drop != 0 || corrupt != 0; }
};

/// A frame that has arrived.
struct Arrival {
  uint32_t host = 0;
  std::vector<uint8_t> bytes;
};

class Network {
 public:
  static constexpr Nanos kLatency{2'000};
  static constexpr uint32_t kMostDelay = 50'000;
  static constexpr uint32_t kMostPause = 3'000'000;

  Network(const NetworkFaults& faults, uint32_t hosts, uint64_t seed)
      : faults_(faults), hosts_(hosts), paused_until_(size_t{hosts} * hosts), random_(seed) {}

  void Send(uint32_t from, uint32_t to, std::vector<uint8_t> bytes, Nanos now) {
    if (random_.Happens(faults_.drop)) return;
    Nanos& paused_until = paused_until_[size_t{from} * hosts_ + to];
    if (random_.Happens(faults_.pause)) {
      paused_until = std::max(paused_until, now + Nanos(random_.Below(kMostPause)));
    }
    const Nanos departure = std::max(now, paused_until);
    if (random_.Happens(faults_.duplicate)) Deliver(to, bytes, departure);
    if (random_.Happens(faults_.corrupt)) {
      bytes[random_.Below(static_cast<uint32_t>(bytes.size()))] ^=
          static_cast<uint8_t>(1 << random_.Below(8));
    }
    Deliver(to, std::move(bytes), departure);
  }
  Nanos NextArrival() const { return flights_.empty() ? kNever : flights_.top().arrival; }
  /// The next frame that has arrived by `now`; false: none.
  bool Take(Nanos now, Arrival& arrival) {
    if (flights_.empty() || flights_.top().arrival > now) return false;
    // The heap's order does not depend on what is moved out of it.
    Flight& top = const_cast<Flight&>(flights_.top());
    arrival = {.host = top.to, .bytes = std::move(top.bytes)};
    flights_.pop();
    ++taken_;
    return true;
  }
  uint64_t taken() const { return taken_; }

 private:
  struct Flight {
    Nanos arrival;
    uint64_t order;
    uint32_t to;
    std::vector<uint8_t> bytes;
    bool operator<(const Flight& other) const {  // The queue's top is its greatest.
      if (arrival != other.arrival) return arrival > other.arrival;
      return order > other.order;
    }
  };

  void Deliver(uint32_t to, std::vector<uint8_t> bytes, Nanos departure) {
    Nanos arrival = departure + kLatency;
    if (random_.Happens(faults_.delay)) arrival = arrival + Nanos(random_.Below(kMostDelay));
    flights_.push({arrival, order_++, to, std::move(bytes)});
  }

  NetworkFaults faults_;
  uint32_t hosts_;
  std::vector<Nanos> paused_until_;  ///< Of each pair of hosts.
  Random random_;
  std::priority_queue<Flight> flights_;
  uint64_t order_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace uroce::sim
