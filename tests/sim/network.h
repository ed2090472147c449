// SPDX-License-Identifier: Apache-2.0
// A network of hosts, in virtual time, from a seed. It loses, duplicates, delays, reorders,
// corrupts and holds up frames, and at times takes no long ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// Chances for each frame, in `of`.
struct NetworkFaults {
  uint32_t of = 1000;
  uint32_t drop = 0;
  uint32_t duplicate = 0;
  uint32_t delay = 0;    ///< The frame alone is late: it arrives after later ones.
  uint32_t corrupt = 0;  ///< One bit is changed.
  uint32_t pause = 0;    ///< The frame's link stops for a while.
  uint32_t far = 0;      ///< The frame arrives after all that others send for many round trips.
  uint32_t shrink = 0;   ///< The frame's link takes only short frames for a while.
  uint32_t most_delay_ns = 50'000;
  bool reorders() const { return delay != 0 || duplicate != 0 || far != 0; }
  bool loses() const { return drop != 0 || corrupt != 0 || shrink != 0; }
};

/// Has room for the longest frame. Reused: a run has a million frames.
struct Frame {
  static constexpr uint32_t kRoom = 4352;
  uint32_t length_bytes = 0;
  std::array<uint8_t, kRoom> room;
  std::span<uint8_t> bytes() { return std::span(room).first(length_bytes); }
};

/// What the network does to a frame.
enum class Fate : uint8_t { kIntact, kLost, kSpoilt };

/// A frame that has arrived.
struct Arrival {
  uint32_t host = 0;
  std::unique_ptr<Frame> frame;
};

/// Sees each frame leave and arrive. Frames are numbered in the order in which they leave; a copy
/// that the network makes has the number of its original.
class Witness {
 public:
  virtual ~Witness() = default;
  virtual void OnSent(uint64_t number, uint32_t from, uint32_t to, std::span<const uint8_t> frame,
                      Fate fate, Nanos now) = 0;
  virtual void OnArrived(uint64_t number, uint32_t from, uint32_t to,
                         std::span<const uint8_t> frame, Nanos now) = 0;
};

class Network {
 public:
  static constexpr Nanos kLatency{2'000};
  static constexpr uint32_t kMostPause = 3'000'000;
  static constexpr uint32_t kMostFarDelay = 5'000'000;
  static constexpr uint32_t kMostShrunk = 3'000'000;
  static constexpr uint32_t kShrunkBytes = 600;

  Network(const NetworkFaults& faults, uint32_t hosts, uint64_t seed)
      : faults_(faults), hosts_(hosts), links_(size_t{hosts} * hosts), random_(seed) {}

  /// Takes a frame, to fill and send.
  std::unique_ptr<Frame> Take() {
    if (idle_.empty()) return std::make_unique_for_overwrite<Frame>();
    std::unique_ptr<Frame> frame = std::move(idle_.back());
    idle_.pop_back();
    return frame;
  }
  void GiveBack(std::unique_ptr<Frame> frame) { idle_.push_back(std::move(frame)); }

  void SetWitness(Witness* witness) { witness_ = witness; }

  /// False: the frame is lost or corrupted.
  bool Send(uint32_t from, uint32_t to, std::unique_ptr<Frame> frame, Nanos now) {
    const Way way{.from = from, .to = to, .number = sent_++};
    if (random_.Happens(faults_.drop, faults_.of)) return Lose(way, std::move(frame), now);
    Link& link = links_[size_t{from} * hosts_ + to];
    if (random_.Happens(faults_.pause, faults_.of)) {
      link.paused_until = std::max(link.paused_until, now + Nanos(random_.Below(kMostPause)));
    }
    if (faults_.shrink != 0 && IsTooLong(link, *frame, now)) {
      return Lose(way, std::move(frame), now);
    }
    const Nanos departure = std::max(now, link.paused_until);
    if (random_.Happens(faults_.duplicate, faults_.of)) Deliver(way, CopyOf(*frame), departure);
    const bool spoilt = random_.Happens(faults_.corrupt, faults_.of);
    Show(way, *frame, spoilt ? Fate::kSpoilt : Fate::kIntact, now);
    if (spoilt) {
      frame->room[random_.Below(frame->length_bytes)] ^=
          static_cast<uint8_t>(1 << random_.Below(8));
    }
    Deliver(way, std::move(frame), departure);
    return !spoilt;
  }
  Nanos NextArrival() const { return flights_.empty() ? kNever : flights_.top().arrival; }
  /// Takes the next frame that has arrived by `now`; false: there is none.
  bool TakeArrival(Nanos now, Arrival& arrival) {
    if (flights_.empty() || flights_.top().arrival > now) return false;
    // The order of the heap does not depend on the member that is moved out.
    Flight& top = const_cast<Flight&>(flights_.top());
    const Way way = top.way;
    arrival = {.host = way.to, .frame = std::move(top.frame)};
    if (witness_ != nullptr) {
      witness_->OnArrived(way.number, way.from, way.to, arrival.frame->bytes(), top.arrival);
    }
    flights_.pop();
    ++taken_;
    return true;
  }
  uint64_t taken() const { return taken_; }

 private:
  struct Link {
    Nanos paused_until;
    Nanos shrunk_until;
  };
  struct Way {
    uint32_t from = 0;
    uint32_t to = 0;
    uint64_t number = 0;
  };
  struct Flight {
    Nanos arrival;
    uint64_t order;
    Way way;
    std::unique_ptr<Frame> frame;
    bool operator<(const Flight& other) const {  // The top of the queue is its greatest element.
      if (arrival != other.arrival) return arrival > other.arrival;
      return order > other.order;
    }
  };

  void Show(const Way& way, Frame& frame, Fate fate, Nanos now) {
    if (witness_ != nullptr) {
      witness_->OnSent(way.number, way.from, way.to, frame.bytes(), fate, now);
    }
  }

  bool Lose(const Way& way, std::unique_ptr<Frame> frame, Nanos now) {
    Show(way, *frame, Fate::kLost, now);
    GiveBack(std::move(frame));
    return false;
  }

  std::unique_ptr<Frame> CopyOf(const Frame& frame) {
    std::unique_ptr<Frame> copy = Take();
    copy->length_bytes = frame.length_bytes;
    std::copy_n(frame.room.begin(), frame.length_bytes, copy->room.begin());
    return copy;
  }

  bool IsTooLong(Link& link, const Frame& frame, Nanos now) {
    if (now >= link.shrunk_until && random_.Happens(faults_.shrink, faults_.of)) {
      link.shrunk_until = now + Nanos(random_.Below(kMostShrunk));
    }
    return now < link.shrunk_until && frame.length_bytes > kShrunkBytes;
  }

  void Deliver(const Way& way, std::unique_ptr<Frame> frame, Nanos departure) {
    Nanos arrival = departure + kLatency;
    if (faults_.far != 0 && random_.Happens(faults_.far, faults_.of)) {
      arrival = arrival + Nanos(random_.Below(kMostFarDelay));
    }
    if (random_.Happens(faults_.delay, faults_.of))
      arrival = arrival + Nanos(random_.Below(faults_.most_delay_ns));
    flights_.push({arrival, order_++, way, std::move(frame)});
  }

  NetworkFaults faults_;
  uint32_t hosts_;
  std::vector<Link> links_;  ///< Of each pair of hosts.
  Random random_;
  std::vector<std::unique_ptr<Frame>> idle_;
  std::priority_queue<Flight> flights_;
  Witness* witness_ = nullptr;
  uint64_t sent_ = 0;
  uint64_t order_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace uroce::sim
