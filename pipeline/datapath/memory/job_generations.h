// SPDX-License-Identifier: Apache-2.0
// Tells when all jobs have ended that began before some moment, though jobs end in any order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace uroce::datapath {

/// Counts jobs by generations. A new generation begins only when none is left of the one before the
/// newest: so jobs of two generations are under way at most, and two counts serve all. Any thread.
class JobGenerations {
 public:
  /// A job begins. Returns its generation, for End.
  uint64_t Begin() {
    for (;;) {
      const uint64_t generation = newest_.load();
      begun_[generation % 2].fetch_add(1);
      // Otherwise the one before may have been looked at before this job was counted.
      if (newest_.load() == generation) [[likely]]
        return generation;
      begun_[generation % 2].fetch_sub(1);
    }
  }
  void End(uint64_t generation) { ended_[generation % 2].fetch_add(1, std::memory_order_release); }

  /// How many jobs have begun.
  uint64_t begun() const { return begun_[0].load() + begun_[1].load(); }
  /// Of jobs that begin now. All that have begun are of this one or an earlier one. From 1 on.
  uint64_t newest() const { return newest_.load(); }
  /// Whether all jobs of `generation` and of earlier ones have ended. It begins a new generation
  /// where that is needed to find out: ask again.
  bool HaveEnded(uint64_t generation) {
    for (;;) {
      uint64_t newest = newest_.load();
      if (newest > generation + 1) return true;
      if (!HasEnded(newest - 1)) return false;
      if (newest == generation + 1) return true;
      newest_.compare_exchange_strong(newest, newest + 1);
    }
  }

 private:
  bool HasEnded(uint64_t generation) const {
    const uint64_t ended = ended_[generation % 2].load();  // First: it is never above the other.
    return begun_[generation % 2].load() == ended;
  }

  alignas(64) std::atomic<uint64_t> newest_{1};
  std::array<std::atomic<uint64_t>, 2> begun_{};
  alignas(64) std::array<std::atomic<uint64_t>, 2> ended_{};
};

}  // namespace uroce::datapath
