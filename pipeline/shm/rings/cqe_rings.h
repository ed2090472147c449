// SPDX-License-Identifier: Apache-2.0
// The program's end of a completion queue that several workers serve: polls their rings in turn.
#pragma once

#include <cstdint>

#include "pipeline/shm/rings/cqe_ring.h"

namespace uroce::rings {

/// The ring of one worker.
struct WorkerCqeRing {
  uint32_t worker = 0;
  CqeConsumer ring;
};

/// Yields the entries of all rings: in order within a ring, and ring by ring in turn, so that a
/// busy worker does not hold up the completions of others. Callers hold the queue's lock.
class CqeRings {
 public:
  /// The most entries taken from one ring before the others are polled.
  static constexpr uint32_t kTurn = 16;

  CqeRings() = default;
  /// `rings` has room for one ring of each worker. The caller owns it.
  explicit CqeRings(WorkerCqeRing* rings) : rings_(rings) {}

  uint32_t count() const { return count_; }
  /// Whether the ring of `worker` is known.
  bool Has(uint32_t worker) const { return Find(worker) != nullptr; }
  /// Adds the ring of `worker`, or replaces the one that it had.
  void Install(uint32_t worker, const CqeRingLayout& layout) {
    WorkerCqeRing* place = Find(worker);
    if (place == nullptr) place = &rings_[count_++];
    place->worker = worker;
    place->ring = CqeConsumer(layout);
  }

  /// The next entry, or null. It stays valid until Publish.
  const uroce_cqe* Peek() {
    if (count_ == 0) return nullptr;
    if (count_ == 1 || taken_ < kTurn) {
      const uroce_cqe* entry = rings_[current_].ring.Peek();
      if (entry != nullptr || count_ == 1) return entry;
    }
    return PeekOthers();
  }
  /// Counts the entry that Peek showed as polled.
  void Advance() {
    rings_[current_].ring.Advance();
    ++taken_;
  }
  /// Gives the polled entries back to the workers.
  void Publish() {
    if (count_ != 0) rings_[current_].ring.Publish();
  }

  /// Calls `on_entry(uroce_cqe&)` for every entry that waits; it may change them.
  template <typename OnEntry>
  void ForEachWaiting(OnEntry&& on_entry) {
    for (uint32_t i = 0; i < count_; ++i) rings_[i].ring.ForEachWaiting(on_entry);
  }

 private:
  WorkerCqeRing* Find(uint32_t worker) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (rings_[i].worker == worker) return &rings_[i];
    }
    return nullptr;
  }

  // Polls each other ring once, then the current one again.
  const uroce_cqe* PeekOthers() {
    Publish();
    taken_ = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      current_ = current_ + 1 == count_ ? 0 : current_ + 1;
      const uroce_cqe* entry = rings_[current_].ring.Peek();
      if (entry != nullptr) return entry;
    }
    return nullptr;
  }

  WorkerCqeRing* rings_ = nullptr;
  uint32_t count_ = 0;
  uint32_t current_ = 0;
  uint32_t taken_ = 0;  // Entries taken from the current ring in this turn.
};

}  // namespace uroce::rings
