// SPDX-License-Identifier: Apache-2.0
// One direction of a fault port: its frames come out late, twice, changed or not at all.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "drivers/fault/fault_config.h"
#include "pipeline/base/types.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::drivers {

/// What a lane did, cumulative. Frames that left = taken - dropped + duplicated - frames still
/// held.
struct FaultCounters {
  uint64_t taken = 0;
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t ce_marked = 0;
  FaultCounters& operator+=(const FaultCounters& other);
};

/// The rules that a lane applies. The port owns them.
using LaneRules = std::vector<ActiveFaultRule*>;

/// Owns the frames that it holds, and loses none except by a drop. Used by one thread. `now` never
/// goes back. A caller puts in at most room() frames.
class FaultLane {
 public:
  /// Duplicates are made in mbufs of `copies`; when it is null, no frame is duplicated.
  FaultLane(const FaultConfig& config, LaneRules rules, uint64_t seed, rte_mempool* copies);
  ~FaultLane();
  FaultLane(const FaultLane&) = delete;
  FaultLane& operator=(const FaultLane&) = delete;

  /// Applies to the next frame and those after it: the rates and the delay of `config`, and
  /// `rules`. Frames in the lane leave as they would have.
  void Set(const FaultConfig& config, LaneRules rules, uint64_t seed);

  /// Takes ownership of `frame`. room() must not be 0.
  void Put(rte_mbuf* frame, Nanos now);
  /// Yields up to `count` frames that are due, in the order in which they leave.
  uint16_t Take(rte_mbuf** frames, uint16_t count, Nanos now);
  /// Puts frames that nobody took back to the front, in their order.
  void Untake(rte_mbuf* const* frames, uint16_t count);

  /// Whether frames may bypass the lane: it makes no faults and holds no frames.
  bool is_idle() const { return is_harmless_ && line_.empty() && held_.empty(); }
  /// How many frames fit even if each of them is duplicated.
  uint16_t room() const;
  /// When the next frame is due: in the past if one is waiting, kNever if none is held.
  Nanos NextDeadline() const;
  const FaultCounters& counters() const { return counters_; }

 private:
  struct Late {
    rte_mbuf* frame;
    Nanos due;
  };
  /// A frame that is held back, so that others pass it.
  struct Held {
    rte_mbuf* frame;
    Nanos due;         ///< The frame leaves then at the latest, even if no more frames pass.
    uint32_t passing;  ///< How many frames must still pass it.
  };

  /// How long a frame is held back at most.
  struct Hold {
    Nanos longest;
    uint32_t passing;  ///< Frames that may pass it.
  };
  /// What becomes of one frame.
  struct Fate {
    bool drop = false;
    bool duplicate = false;
    bool mark = false;
    bool corrupt = false;                ///< At a random place.
    std::optional<uint32_t> corrupt_at;  ///< At this byte.
    std::optional<Hold> hold;
  };

  bool Chance(double rate);
  Fate DrawFate();
  void ApplyRules(std::span<const uint8_t> frame, Fate& fate);
  void Line(rte_mbuf* frame, const std::optional<Hold>& hold, Nanos now);
  void Duplicate(const rte_mbuf* frame, Nanos now);
  void Corrupt(rte_mbuf* frame);
  void Change(rte_mbuf* frame, uint32_t at, uint8_t flip);
  rte_mbuf* TakeHeld(Nanos now);

  FaultConfig config_;
  LaneRules rules_;
  bool is_harmless_ = true;
  rte_mempool* const copies_;
  std::mt19937_64 random_;
  std::deque<Late> line_;  ///< In order of arrival, which is also the order of `due`.
  std::vector<Held> held_;
  FaultCounters counters_;
};

}  // namespace uroce::drivers
