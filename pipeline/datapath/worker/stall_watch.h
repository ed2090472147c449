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
  static constexpr uint32_t kAccessesPerLook = 16;

  explicit StallWatch(const TurnTime& time) : time_(time) { AfterSleep(); }

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
    looked_ = time_.ReadClock();
  }
  void Look() {
    const Nanos now = time_.ReadClock();
    const Nanos passed = now - std::exchange(looked_, now);
    if (passed >= kLong) [[unlikely]]
      OnLong(passed, time_.now());
  }
  void OnLong(Nanos took, Nanos now);
  bool HasWaited();
  void Begin();
  void End(MemoryRest* rest);

  const TurnTime& time_;
  bool measures_ = false;
  Nanos measures_until_{0};
  uint32_t accesses_ = 0;   ///< That were not measured.
  Nanos looked_{0};         ///< After one of these, or before the first one of a turn.
  uint64_t looked_in_ = 0;  ///< The turn.
  Nanos begin_{0};
  uint64_t turn_ = 0;     ///< In which `Begin` read `switches_`.
  int64_t switches_ = 0;  ///< How often the thread had given its CPU up.
};

}  // namespace uroce::datapath
