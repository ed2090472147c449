// SPDX-License-Identifier: Apache-2.0
// Which READs may ask for data, where a port's receive buffer holds little and drops the rest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/datapath/thread/deficit_round_robin.h"

namespace uroce::datapath {

/// What one queue pair has of a ReadBudget, and its place in the line. Owned by the queue pair.
struct ReadShare : Flow {
  uint64_t wanted_bytes = 0;   ///< Of the READ that waits in the line.
  uint64_t counted_bytes = 0;  ///< What the budget has counted for it, unless it is forgotten.
  uint64_t period = 0;         ///< When that was.
};

/// The queue pairs of one program that wait in the line. Owned by the program's flow of the port.
struct ReadLine : Flow {
  static constexpr int64_t kQuantumBytes = 64 * 1024;
  DeficitRoundRobin shares{kQuantumBytes};
};

/// Bounds the responses to READs that a worker's queue pairs have asked for on one port, by the
/// receive buffer of the port: a responder sends them as fast as it can. A READ leaves when there
/// is room, or when nothing else is asked for, since it may be larger than the buffer. Those that
/// find no room wait in a line, which is fair in bytes between programs, and then between the queue
/// pairs of one. A READ that has its turn waits until there is room for it, and so does the line.
///
/// Responses that do not come are forgotten: a peer that is gone holds nobody up. Bytes are counted
/// for one period at least, and for two at most. Pure, one thread.
class ReadBudget {
 public:
  /// Responses that were asked for this long ago are hardly on their way.
  static constexpr Nanos kPeriod{20'000'000};
  /// What a queue pair may ask for at once while nobody waits: many small READs leave in one turn.
  static constexpr uint64_t kSpareBytes = 32 * 1024;

  /// `room_bytes` is what responses may take, as transport::ReceiveBufferBytes counts; 0: no bound.
  explicit ReadBudget(uint64_t room_bytes) : room_bytes_(room_bytes) {}

  bool is_bounded() const { return room_bytes_ != 0; }
  uint64_t asked_bytes() const { return asked_bytes_[0] + asked_bytes_[1]; }
  bool has_line() const { return !lines_.empty(); }

  /// A READ that takes `bytes` waits for its turn.
  void Wait(ReadLine& line, ReadShare& share, uint64_t bytes) {
    share.wanted_bytes = bytes;
    line.shares.Add(share);
    lines_.Add(line);
  }
  /// `share` wants nothing any more.
  void Leave(ReadLine& line, ReadShare& share) {
    line.shares.Remove(share);
    if (line.shares.empty()) lines_.Remove(line);
  }
  static bool IsWaiting(const ReadShare& share) { return share.place != Flow::Place::kAway; }

  /// What was granted to `share`, and is answered or not used, is free again: `bytes` are left.
  void Shrink(ReadShare& share, uint64_t bytes, Nanos now) {
    Advance(now);
    uint64_t& counted = CountedOf(share);
    if (bytes >= counted) return;
    asked_bytes_[share.period % 2] -= counted - bytes;
    counted = bytes;
  }

  /// Takes the share whose turn it is from the line, if there is room for its READ; else null.
  /// `granted`: what it may ask for, its READ at least.
  ReadShare* Grant(Nanos now, uint64_t& granted) {
    auto* const line = static_cast<ReadLine*>(lines_.Current());
    if (line == nullptr) return nullptr;
    Advance(now);
    auto& share = *static_cast<ReadShare*>(line->shares.Current());
    const uint64_t asked = asked_bytes();
    const uint64_t free = room_bytes_ - std::min(room_bytes_, asked);
    if (asked != 0 && share.wanted_bytes > free) return nullptr;
    Leave(*line, share);
    granted = share.wanted_bytes;
    if (!has_line()) granted = std::max(granted, std::min(free, kSpareBytes));
    const auto charged = static_cast<uint32_t>(std::min<uint64_t>(granted, UINT32_MAX));
    DeficitRoundRobin::Charge(share, charged);
    DeficitRoundRobin::Charge(*line, charged);
    CountFor(share, granted);
    return &share;
  }

  /// When Grant may find room though nothing was answered; kNever: nobody waits.
  Nanos NextDeadline() const {
    return has_line() ? kPeriod * static_cast<int64_t>(period_ + 1) : kNever;
  }

 private:
  void Advance(Nanos now) {
    const auto period = static_cast<uint64_t>(now.count() / kPeriod.count());
    if (period == period_) return;
    asked_bytes_[period % 2] = 0;
    if (period > period_ + 1) asked_bytes_[(period + 1) % 2] = 0;
    period_ = period;
  }
  uint64_t& CountedOf(ReadShare& share) const {
    if (share.period + 1 < period_) share.counted_bytes = 0;
    return share.counted_bytes;
  }
  /// Counts `bytes` more for `share`. What it has asked for before is as new again.
  void CountFor(ReadShare& share, uint64_t bytes) {
    const uint64_t counted = CountedOf(share);
    if (counted != 0) asked_bytes_[share.period % 2] -= counted;
    share.period = period_;
    share.counted_bytes = counted + bytes;
    asked_bytes_[period_ % 2] += share.counted_bytes;
  }

  const uint64_t room_bytes_;
  std::array<uint64_t, 2> asked_bytes_{};  ///< In this period and in the one before.
  uint64_t period_ = 0;
  DeficitRoundRobin lines_{ReadLine::kQuantumBytes};
};

}  // namespace uroce::datapath
