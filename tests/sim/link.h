// SPDX-License-Identifier: Apache-2.0
// One direction of a wire that loses, doubles, delays and reorders, in virtual time.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// A packet under way, with its own copy of the payload.
struct Frame {
  wire::TransportHeader header;
  std::vector<uint8_t> payload;
};

/// Chances in a thousand. A corrupted packet fails its ICRC, so it counts as dropped.
struct LinkFaults {
  uint32_t drop = 0;
  uint32_t duplicate = 0;
  uint32_t delay = 0;
  int64_t latency_ns = 2'000;
  int64_t most_delay_ns = 50'000;
};

class Link {
 public:
  Link(const LinkFaults& faults, uint64_t seed) : faults_(faults), random_(seed) {}

  void Send(const Frame& frame, Nanos now) {
    if (random_.Happens(faults_.drop)) return;
    Deliver(frame, now);
    if (random_.Happens(faults_.duplicate)) Deliver(frame, now);
  }
  Nanos NextArrival() const { return frames_.empty() ? kNever : frames_.top().arrival; }
  /// The next frame that has arrived by `now`.
  std::optional<Frame> Take(Nanos now) {
    if (frames_.empty() || frames_.top().arrival > now) return std::nullopt;
    Frame frame = frames_.top().frame;
    frames_.pop();
    return frame;
  }

 private:
  struct Flight {
    Nanos arrival;
    uint64_t order;
    Frame frame;
    bool operator<(const Flight& other) const {  // The queue's top is its greatest.
      if (arrival != other.arrival) return arrival > other.arrival;
      return order > other.order;
    }
  };

  void Deliver(const Frame& frame, Nanos now) {
    Nanos arrival = now + Nanos(faults_.latency_ns);
    if (random_.Happens(faults_.delay)) {
      arrival = arrival + Nanos(random_.Below(static_cast<uint32_t>(faults_.most_delay_ns)));
    }
    frames_.push({arrival, order_++, frame});
  }

  LinkFaults faults_;
  Random random_;
  std::priority_queue<Flight> frames_;
  uint64_t order_ = 0;
};

}  // namespace uroce::sim
