// SPDX-License-Identifier: Apache-2.0
// The two ends of a completion queue's ring on one worker. An entry carries the lap in which it was
// written, so that the program needs no index of the worker. The worker reads the program's index
// only when the ring looks full.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

static_assert(sizeof(uroce_cqe) == UROCE_LINE);
static_assert(offsetof(uroce_cqe, generation) == UROCE_LINE - sizeof(uint32_t));

/// Addresses and depth of a ring. `depth` is a power of two.
struct CqeRingLayout {
  uroce_cq_ring_page* page = nullptr;
  uroce_cqe* entries = nullptr;
  uint32_t depth = 1;
};

/// The lap of free-running index `index`, as entries carry it. The first lap is 1, so that entries
/// which were never written, and hold 0, are not valid.
constexpr uint32_t Generation(uint32_t index, uint32_t depth) {
  return (index >> std::countr_zero(depth)) + 1;
}

enum class PushResult : uint8_t {
  kOk,
  kFull,    ///< The program has not polled: CQ_ERR.
  kCorrupt  ///< The program's index is impossible: CQ_ERR too.
};

/// The worker's end.
class CqeProducer {
 public:
  CqeProducer() = default;
  /// A ring whose first `produced` entries CopyWaiting has written.
  explicit CqeProducer(const CqeRingLayout& layout, uint32_t produced = 0)
      : layout_(layout), produced_(produced) {}

  const CqeRingLayout& layout() const { return layout_; }
  uint32_t produced() const { return produced_; }
  /// Entries that the program has not polled. More than depth when the program's index is
  /// impossible.
  uint32_t waiting() const { return produced_ - LoadAcquire(layout_.page->consumed.value); }

  /// Sets the generation of `cqe` and publishes it; visible at once. Everything that the CQE
  /// reports is written to memory before.
  [[nodiscard]] PushResult Push(const uroce_cqe& cqe) {
    if (produced_ - consumed_ >= layout_.depth) {
      const PushResult room = LookForRoom();
      if (room != PushResult::kOk) return room;
    }
    uroce_cqe& entry = layout_.entries[produced_ & (layout_.depth - 1)];
    memcpy(&entry, &cqe, offsetof(uroce_cqe, generation));
    StoreRelease(entry.generation, Generation(produced_, layout_.depth));
    ++produced_;
    return PushResult::kOk;
  }

 private:
  PushResult LookForRoom() {
    const uint32_t consumed = LoadAcquire(layout_.page->consumed.value);
    const uint32_t waiting = produced_ - consumed;
    if (waiting > layout_.depth) return PushResult::kCorrupt;
    consumed_ = consumed;
    return waiting == layout_.depth ? PushResult::kFull : PushResult::kOk;
  }

  CqeRingLayout layout_;
  uint32_t produced_ = 0;
  uint32_t consumed_ = 0;
};

/// Copies entries to a new ring: entry `oldest` + i of `from` becomes entry i of `to`, for i in
/// [first, end). Nobody polls meanwhile. Range: end <= both depths.
inline void CopyWaiting(const CqeRingLayout& from, uint32_t oldest, uint32_t first, uint32_t end,
                        const CqeRingLayout& to) {
  for (uint32_t i = first; i < end; ++i) {
    const uroce_cqe& old = from.entries[(oldest + i) & (from.depth - 1)];
    memcpy(&to.entries[i], &old, offsetof(uroce_cqe, generation));
    StoreRelease(to.entries[i].generation, Generation(i, to.depth));
  }
}

/// The program's end. Callers take turns (the queue's lock).
class CqeConsumer {
 public:
  CqeConsumer() = default;
  explicit CqeConsumer(const CqeRingLayout& layout) : layout_(layout) {}

  uint32_t consumed() const { return consumed_; }

  /// The next entry, or null. It stays valid until Publish.
  const uroce_cqe* Peek() const {
    uroce_cqe& entry = At(consumed_);
    return IsWritten(entry, consumed_) ? &entry : nullptr;
  }
  /// Counts the entry that Peek showed as polled.
  void Advance() { ++consumed_; }
  /// Gives the polled entries back to the worker.
  void Publish() { StoreRelease(layout_.page->consumed.value, consumed_); }

  /// Calls `on_entry(uroce_cqe&)` for every entry that waits; it may change them.
  template <typename OnEntry>
  void ForEachWaiting(OnEntry&& on_entry) {
    for (uint32_t i = 0; i < layout_.depth; ++i) {
      uroce_cqe& entry = At(consumed_ + i);
      if (!IsWritten(entry, consumed_ + i)) return;
      on_entry(entry);
    }
  }

 private:
  uroce_cqe& At(uint32_t index) const { return layout_.entries[index & (layout_.depth - 1)]; }
  bool IsWritten(const uroce_cqe& entry, uint32_t index) const {
    return LoadAcquire(entry.generation) == Generation(index, layout_.depth);
  }

  CqeRingLayout layout_;
  uint32_t consumed_ = 0;
};

}  // namespace uroce::rings
