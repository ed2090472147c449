// SPDX-License-Identifier: Apache-2.0
// A completion queue in shared memory: its ring on each worker, the program's end that polls the
// rings in turn, the arm word, and the word on which polling threads sleep.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

// The two ends of a completion queue's ring on one worker. An entry carries the lap in which it was
// written, so that the program needs no index of the worker. The worker reads the program's index
// only when the ring looks full.

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
/// [first, end). No thread polls meanwhile. Range: end <= both depths.
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

/// The program's end of a completion queue that several workers serve: polls their rings in turn.
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

// The arm word of a completion queue: each arming causes one record on the channel, from the first
// of its workers that has a CQE.

/// Arms for the next CQE, or the next solicited or failed one. NEXT overrides SOLICITED in either
/// order (IBTA vol. 1, 11.4.2.2). The caller polls again afterwards: the full fence here and the
/// one in TakeArming ensure that this poll finds a CQE or that it makes a record. Program.
inline void Arm(uroce_cq_page& page, bool solicited_only) {
  uint32_t current = LoadRelaxed(page.arm.value);
  if (!solicited_only) {
    StoreRelaxed(page.arm.value, uint32_t{UROCE_CQ_ARMED_NEXT});
  } else if (current == UROCE_CQ_DISARMED) {
    __atomic_compare_exchange_n(&page.arm.value, &current, uint32_t{UROCE_CQ_ARMED_SOLICITED},
                                false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
  FullFence();
}

/// Whether a record is due for the CQEs just published; if so, disarms the queue. `solicited`: one
/// of them is solicited or has failed. Called once per ring and burst, after the last Push, by any
/// worker that has a ring of the queue.
[[nodiscard]] inline bool TakeArming(uroce_cq_page& page, bool solicited) {
  FullFence();
  uint32_t armed = LoadRelaxed(page.arm.value);
  // The word may change in between: the program raises SOLICITED to NEXT, or another worker takes
  // the arming and the program re-arms. Two tries are enough: a program that arms after the first
  // try polls after that, and finds the CQEs.
  for (int look = 0; look < 2; ++look) {
    const bool due =
        armed == UROCE_CQ_ARMED_NEXT || (armed == UROCE_CQ_ARMED_SOLICITED && solicited);
    if (!due) return false;
    if (__atomic_compare_exchange_n(&page.arm.value, &armed, uint32_t{UROCE_CQ_DISARMED}, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

// The word on which threads of a program sleep that poll empty completion queues. It has a bit for
// each queue, so that a completion wakes the threads that poll its queue, and no others.

/// The bit of the CQ that the daemon calls `handle`. Two CQs may have the same bit: then a thread
/// wakes for nothing.
constexpr uint32_t PollerBit(uint32_t handle) { return uint32_t{1} << (handle % 32); }

/// Says that the caller is about to sleep for the CQs with these bits. It polls them afterwards:
/// the full fence here and the one of the publisher ensure that this poll finds a CQE, or that the
/// CQE's publisher finds the bit. Returns the value of the word to sleep on. Program.
inline uint32_t AnnouncePoller(uroce_line32& pollers, uint32_t bits) {
  const uint32_t before = __atomic_fetch_or(&pollers.value, bits, __ATOMIC_SEQ_CST);
  FullFenceAfterAtomic();
  return before | bits;
}

/// Whether a thread may sleep for the CQ of `bit`. Called after the CQEs and a full fence. Worker.
inline bool HasPollers(const uroce_line32& pollers, uint32_t bit) {
  return (LoadRelaxed(pollers.value) & bit) != 0;
}

/// Clears the bit. True: the caller must wake the threads that sleep for it. Worker.
[[nodiscard]] inline bool TakePollers(uroce_line32& pollers, uint32_t bit) {
  return (__atomic_fetch_and(&pollers.value, ~bit, __ATOMIC_SEQ_CST) & bit) != 0;
}

}  // namespace uroce::rings
