// SPDX-License-Identifier: Apache-2.0
// Finds the programs whose mapped memory makes a worker wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/thread/scheduling.h"

namespace uroce::datapath {

/// No single access to mapped memory is measured until a turn, or some accesses of a turn, took
/// long and the thread gave its CPU up in them: it waited in the kernel. Then each access is
/// measured, for a hundred times as long. If the thread waits in one, the memory of the program's
/// user rests (memory_rest.h). So a turn, which may have hundreds of accesses, waits in few of
/// them. What is long because another thread took the CPU is no reason for anything. One worker.
class StallWatch {
 public:
  static constexpr Nanos kLong{1'000'000};
  /// A look at the clock for each access would cost a small message a twentieth.
  static constexpr uint32_t kAccessesPerLook = 8;

  explicit StallWatch(const TurnTime& time)
      : time_(time), long_ticks_(time.clock().TicksIn(kLong)) {
    AfterSleep();
  }

  /// A turn has taken `took` until `now`.
  void OnTurn(Nanos took, Nanos now) {
    if (took >= kLong) [[unlikely]]
      OnLong(took, now);
    measures_ = now < measures_until_;
  }
  /// The thread has slept between two turns.
  void AfterSleep();
  /// Whether it measures each access until the next turn.
  bool measures() const { return measures_; }
  /// Calls `access`, which moves bytes as `walker` says, and returns its result.
  template <typename Access>
  auto Watch(const PieceWalker& walker, Access&& access) {
    if (!measures_) [[likely]] {
      if (looked_in_ != time_.number()) BeginLooks();
      const auto result = access();
      if (++accesses_ % kAccessesPerLook == 0) Look();
      return result;
    }
    Begin();
    const auto result = access();
    End(walker.rest());
    return result;
  }

 private:
  void BeginLooks() {
    looked_in_ = time_.number();
    looked_ = time_.ReadTicks();
  }
  void Look() {
    const uint64_t now = time_.ReadTicks();
    const uint64_t passed = now - std::exchange(looked_, now);
    if (IsLong(passed)) [[unlikely]]
      OnLong(time_.clock().SpanOf(passed), time_.now());
  }
  /// The counters of two CPUs differ a little, so a span may be negative.
  bool IsLong(uint64_t ticks) const {
    return static_cast<int64_t>(ticks) >= static_cast<int64_t>(long_ticks_);
  }
  void OnLong(Nanos took, Nanos now);
  bool HasWaited();
  void Begin();
  void End(MemoryRest* rest);

  const TurnTime& time_;
  const uint64_t long_ticks_;
  bool measures_ = false;
  Nanos measures_until_{0};
  uint32_t accesses_ = 0;   ///< That were not measured.
  uint64_t looked_ = 0;     ///< Ticks after one of these, or before the first one of a turn.
  uint64_t looked_in_ = 0;  ///< The turn.
  uint64_t begin_ = 0;      ///< Ticks.
  uint64_t turn_ = 0;       ///< In which `Begin` read `switches_`.
  int64_t switches_ = 0;    ///< How often the thread had given its CPU up.
};

}  // namespace uroce::datapath
