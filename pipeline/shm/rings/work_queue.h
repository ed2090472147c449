// SPDX-License-Identifier: Apache-2.0
// The two ends of a send or receive queue: slots of one size in shared memory, and a free-running
// index that the producer, the program, publishes.
#pragma once

#include <cassert>
#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

/// Address and size of a queue. `depth` is a power of two, or 0 for a queue that does not exist.
struct WorkQueueLayout {
  uint8_t* slots = nullptr;
  uint32_t depth = 0;
  uint32_t slot_bytes = 0;
};

/// The program's end. Callers hold the queue's lock. The program itself keeps account of free
/// slots, see verbs-shim; this class only writes and publishes.
class WorkQueueProducer {
 public:
  WorkQueueProducer() = default;
  WorkQueueProducer(const WorkQueueLayout& layout, uroce_line32* produced)
      : layout_(layout), shared_(produced), produced_(LoadRelaxed(produced->value)) {}

  /// Free-running index of the next work request. Any thread; without the lock it may be stale.
  uint32_t index() const { return LoadRelaxed(produced_); }
  const WorkQueueLayout& layout() const { return layout_; }

  /// The slot of the work request at `index`.
  uint8_t* Slot(uint32_t index) const {
    return layout_.slots + static_cast<size_t>(index & (layout_.depth - 1)) * layout_.slot_bytes;
  }
  /// Counts the slot at index() as written; the worker does not see it yet.
  void Advance() { StoreRelaxed(produced_, produced_ + 1); }
  /// Takes back the work requests from `index` on, which are not published.
  void Rewind(uint32_t index) { StoreRelaxed(produced_, index); }
  /// Makes all written work requests visible to the worker.
  void Publish() { StoreRelease(shared_->value, produced_); }

 private:
  WorkQueueLayout layout_;
  uroce_line32* shared_ = nullptr;
  uint32_t produced_ = 0;
};

/// The result of reading the producer's index.
enum class QueueState : uint8_t { kEmpty, kReady, kCorrupt };

/// The worker's end. The program may change `produced` at any time; all other state is private.
class WorkQueueConsumer {
 public:
  WorkQueueConsumer() = default;
  /// `first` is the index of the first work request to take.
  WorkQueueConsumer(const WorkQueueLayout& layout, const uroce_line32* produced, uint32_t first = 0)
      : layout_(layout), shared_(produced), taken_(first), seen_(first) {}

  /// Free-running index of the next work request to take.
  uint32_t index() const { return taken_; }
  const WorkQueueLayout& layout() const { return layout_; }
  /// Work requests that are known to wait; does not read shared memory.
  uint32_t seen() const { return seen_ - taken_; }
  /// How many waited when the index was last read.
  uint32_t waited() const { return waited_; }

  /// Whether the producer's index says that something waits, or is corrupt. Changes nothing.
  bool HasPosted() const { return LoadAcquire(shared_->value) != taken_; }

  /// Reads the producer's index, but only when all work requests seen before are taken.
  /// kCorrupt: the index claims more than fits; the caller puts the queue pair in error.
  [[nodiscard]] QueueState Look() {
    if (taken_ != seen_) return QueueState::kReady;
    return LookAgain();
  }

  /// As Look, but always reads the index: for counts that must be current.
  [[nodiscard]] QueueState LookAgain() {
    const uint32_t produced = LoadAcquire(shared_->value);
    // Also catches an index that went back. `seen_` never takes a bad value.
    if (produced - taken_ > layout_.depth) return QueueState::kCorrupt;
    seen_ = produced;
    waited_ = produced - taken_;
    return produced == taken_ ? QueueState::kEmpty : QueueState::kReady;
  }

  /// The next slot, after kReady. The program can still write to it: copy once (wqe.h).
  const uint8_t* Slot() const { return Slot(taken_); }
  /// The slot of the work request at `index`.
  const uint8_t* Slot(uint32_t index) const {
    return layout_.slots + static_cast<size_t>(index & (layout_.depth - 1)) * layout_.slot_bytes;
  }
  /// Counts the slot as taken.
  void Advance() {
    assert(taken_ != seen_);
    ++taken_;
  }
  /// Forgets everything posted so far: for a queue pair that goes to RESET.
  void SkipAll() {
    taken_ = seen_ = LoadAcquire(shared_->value);
    waited_ = 0;
  }

 private:
  WorkQueueLayout layout_;
  const uroce_line32* shared_ = nullptr;
  uint32_t taken_ = 0;
  uint32_t seen_ = 0;
  uint32_t waited_ = 0;
};

}  // namespace uroce::rings
