// SPDX-License-Identifier: Apache-2.0
// Chooses when to wake threads that sleep until their completion queues have CQEs.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/completion_ring.h"

namespace uroce::datapath {

/// Such threads sleep because they share a core, maybe this worker's own. A thread that is woken
/// for the first of many CQEs takes the core before there are more, and sleeps again: measured
/// beside one busy process, 64 KB WRITEs, 25,000 wake-ups a second and 57 Gb/s, against 4,000
/// and 87. So they are woken after a turn that found no work, or kLongestDelay after the first CQE.
/// One thread.
class PollerWakes {
 public:
  static constexpr Nanos kLongestDelay{200'000};

  /// The threads that poll the queue of `ring` are due.
  void Add(CompletionRing& ring, Nanos now) {
    if (ring.is_waking()) return;
    if (rings_.empty()) since_ = now;
    ring.set_waking(true);
    rings_.push_back(&ring);
  }
  /// Called after each turn.
  void AfterTurn(bool busy, Nanos now) {
    if (!rings_.empty() && (!busy || now - since_ >= kLongestDelay)) WakeAll();
  }

  // ---- between turns ----
  /// Reserves room for as many rings.
  void Reserve(size_t rings) { rings_.reserve(rings); }
  void Remove(CompletionRing* ring);

 private:
  void WakeAll();

  std::vector<CompletionRing*> rings_;  // Each once.
  Nanos since_{0};                      // When the first of them was added.
};

}  // namespace uroce::datapath
