// SPDX-License-Identifier: Apache-2.0
// Finds the programs whose mapped memory makes a worker wait.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/thread/scheduling.h"

namespace uroce::datapath {

/// Nothing is measured until a turn took long. Then each access to mapped memory is, for a hundred
/// times as long. An access that took long, and in which the thread gave its CPU up, waited in the
/// kernel: the memory of the program's user rests (memory_rest.h). An access that was long because
/// another thread took the CPU is no reason. One worker.
class StallWatch {
 public:
  static constexpr Nanos kLong{1'000'000};

  explicit StallWatch(const TurnTime& time) : time_(time) {}

  /// A turn has taken `took` until `now`.
  void OnTurn(Nanos took, Nanos now) {
    if (took >= kLong) [[unlikely]] {
      measures_until_ = std::max(measures_until_, now + took * MemoryRest::kTimesAsLong);
    }
    measures_ = now < measures_until_;
  }
  /// Calls `access`, which moves bytes as `walker` says, and returns its result.
  template <typename Access>
  auto Watch(const PieceWalker& walker, Access&& access) {
    if (!measures_) [[likely]]
      return access();
    Begin();
    const auto result = access();
    End(walker.rest());
    return result;
  }

 private:
  void Begin();
  void End(MemoryRest* rest);

  const TurnTime& time_;
  bool measures_ = false;
  Nanos measures_until_{0};
  Nanos begin_{0};
  uint64_t turn_ = 0;     ///< In which `switches_` was read.
  int64_t switches_ = 0;  ///< How often the thread had given its CPU up.
};

}  // namespace uroce::datapath
