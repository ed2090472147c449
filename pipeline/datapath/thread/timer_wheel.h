// SPDX-License-Identifier: Apache-2.0
// The time of a worker's turn, and the timers that expire by it.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/os/clock.h"

namespace uroce::datapath {

/// The time of a worker's turn, for all its parts. Time stands still within a turn. One thread.
class TurnTime {
 public:
  void Begin(Nanos now) {
    ++number_;
    now_ = now;
    if (now - tended_ < Clock::kTendInterval) return;
    clock_.Tend();
    tended_ = now;
  }
  Nanos now() const { return now_; }
  /// The number of the turn; the first turn is 1.
  uint64_t number() const { return number_; }
  /// The time of the clock at the call, which is later than `now()`.
  Nanos ReadClock() const { return clock_.Now(); }
  /// Says what time it is since 1970, at each call.
  Clock& clock() { return clock_; }

 private:
  Clock clock_;
  Nanos now_ = clock_.Now();
  Nanos tended_ = now_;
  uint64_t number_ = 0;
};

/// Link of one timer. Embedded in its owner, which outlives its time in the wheel.
struct TimerEntry {
  TimerEntry* next = nullptr;
  TimerEntry* previous = nullptr;
  Nanos deadline = kNever;  ///< kNever: not filed.
  uint16_t place = 0;       ///< Level and slot, for the wheel alone.

  bool filed() const { return deadline != kNever; }
};

/// Hierarchical timer wheel: slots of 8.2 us, each level 64 times coarser than the one below, so
/// that every deadline has a place. An entry never expires before its deadline, and at most one
/// slot after it when PopExpired is called in time.
/// One thread, and time is a parameter. Filing and removing cost the same however many entries
/// there are.
class TimerWheel {
 public:
  explicit TimerWheel(Nanos now);

  /// Files `entry`, or moves it when it is filed already. `deadline` is not kNever.
  void File(TimerEntry& entry, Nanos deadline);
  /// Takes `entry` out if it is filed.
  void Remove(TimerEntry& entry);
  /// One entry whose deadline has passed, no longer filed; null when there is none.
  TimerEntry* PopExpired(Nanos now);
  /// A time not after the earliest deadline; kNever when nothing is filed.
  Nanos NextDeadline() const;

 private:
  static constexpr int kTickShift = 13;
  static constexpr int kLevelShift = 6;
  static constexpr int kSlots = 1 << kLevelShift;
  static constexpr int kLevels = 9;  // 54 bits of ticks cover 63 bits of nanoseconds.
  static constexpr uint16_t kDue = UINT16_MAX;

  struct Slot {
    int level;
    uint64_t start_tick;
  };

  void Insert(TimerEntry& entry);
  void Unlink(TimerEntry& entry);
  bool FindEarliest(Slot& slot) const;
  void Open(const Slot& slot);

  uint64_t tick_;                        // All slots before it are empty.
  uint64_t earliest_tick_ = UINT64_MAX;  // No slot starts before it; one may start later.
  TimerEntry* due_ = nullptr;
  std::array<uint64_t, kLevels> occupied_{};
  std::array<std::array<TimerEntry*, kSlots>, kLevels> heads_{};
};

}  // namespace uroce::datapath
