// SPDX-License-Identifier: Apache-2.0
// One direction of a fault port: frames go in, and come out late, twice, changed or not at all.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "drivers/fault/fault_config.h"
#include "pipeline/base/types.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::drivers {

/// What a lane did, cumulative. Frames that left = taken - dropped + duplicated - those still held.
struct FaultCounters {
  uint64_t taken = 0;
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t ce_marked = 0;
  FaultCounters& operator+=(const FaultCounters& other);
};

/// Owns the frames it holds; none is lost except by a drop. One thread. `now` never goes back.
/// Frames put in are limited by room().
class FaultLane {
 public:
  /// `copies` is where duplicates are made; with it empty there are none.
  FaultLane(const FaultConfig& config, uint64_t seed, rte_mempool* copies);
  ~FaultLane();
  FaultLane(const FaultLane&) = delete;
  FaultLane& operator=(const FaultLane&) = delete;

  /// From the next frame on; those in it leave as they would have.
  void Set(const FaultConfig& config, uint64_t seed);

  /// Takes ownership of `frame`. room() must not be 0.
  void Put(rte_mbuf* frame, Nanos now);
  /// Up to `count` frames that are due, in the order in which they leave.
  uint16_t Take(rte_mbuf** frames, uint16_t count, Nanos now);
  /// Puts frames that nobody took back to the front, in their order.
  void Untake(rte_mbuf* const* frames, uint16_t count);

  /// Frames may pass it by: it would do nothing, and holds none.
  bool is_idle() const { return is_harmless_ && line_.empty() && held_.empty(); }
  /// Frames that fit even if each of them is duplicated.
  uint16_t room() const;
  /// When the next frame is due: in the past if one is waiting, kNever if none is held.
  Nanos NextDeadline() const;
  const FaultCounters& counters() const { return counters_; }

 private:
  struct Late {
    rte_mbuf* frame;
    Nanos due;
  };
  /// Held back for reordering.
  struct Held {
    rte_mbuf* frame;
    Nanos due;         ///< Leaves then at the latest, though nothing passes any more.
    uint32_t passing;  ///< Frames still to pass it.
  };

  bool Chance(double rate);
  void Line(rte_mbuf* frame, bool hold, Nanos now);
  void Duplicate(const rte_mbuf* frame, Nanos now);
  void Corrupt(rte_mbuf* frame);
  rte_mbuf* TakeHeld(Nanos now);

  FaultConfig config_;
  bool is_harmless_;
  rte_mempool* const copies_;
  std::mt19937_64 random_;
  std::deque<Late> line_;  ///< In order of arrival, which is that of `due`.
  std::vector<Held> held_;
  FaultCounters counters_;
};

}  // namespace uroce::drivers
