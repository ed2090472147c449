// SPDX-License-Identifier: Apache-2.0
// The two ends of a send or receive queue: slots of one size in shared memory, a free-running index
// that the producer, the program, publishes, and the work requests in the slots, which the worker
// copies once and checks.
#pragma once

#include <cassert>
#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

// Work requests in their slots: the program writes them; the worker copies them once and checks.

/// Bytes that a slot needs for its limits: a multiple of a cache line.
constexpr uint32_t SendSlotBytes(uint32_t max_sge, uint32_t max_inline_bytes) {
  const uint32_t sge_bytes = max_sge * static_cast<uint32_t>(sizeof(uroce_sge));
  const uint32_t tail = sge_bytes > max_inline_bytes ? sge_bytes : max_inline_bytes;
  const uint32_t bytes = static_cast<uint32_t>(sizeof(uroce_send_wqe)) + tail;
  return (bytes + UROCE_LINE - 1) / UROCE_LINE * UROCE_LINE;
}

/// Bytes of a receive slot: 32 if that is enough, else a multiple of a cache line, so that no slot
/// with one entry crosses a cache line.
constexpr uint32_t ReceiveSlotBytes(uint32_t max_sge) {
  const uint32_t bytes = static_cast<uint32_t>(sizeof(uroce_recv_wqe)) +
                         max_sge * static_cast<uint32_t>(sizeof(uroce_sge));
  return bytes <= 32 ? 32 : (bytes + UROCE_LINE - 1) / UROCE_LINE * UROCE_LINE;
}

/// The limits with which the queue pair was created: no work request may exceed them.
struct WqeLimits {
  uint32_t max_sge = 0;           ///< At most UROCE_MAX_SGE.
  uint32_t max_inline_bytes = 0;  ///< At most UROCE_MAX_INLINE.
};

/// Private copy of a send work request. Only the part that the header promises is written.
struct SendWqe {
  uroce_send_wqe header;
  union {
    uroce_sge sges[UROCE_MAX_SGE];
    uint8_t inline_data[UROCE_MAX_SGE * sizeof(uroce_sge)];
  };
  bool is_inline() const { return (header.flags & UROCE_SEND_INLINE) != 0; }
};
static_assert(sizeof(SendWqe::inline_data) >= UROCE_MAX_INLINE);
static_assert(sizeof(uroce_send_wqe) == 48);

/// Private copy of a receive work request.
struct ReceiveWqe {
  uroce_recv_wqe header;
  uroce_sge sges[UROCE_MAX_SGE];
};

enum class WqeResult : uint8_t { kOk, kTooManySges, kInlineTooLong };

/// Copies the work request at `slot` into `wqe`, each byte once. On an error only `header` is set,
/// so that the completion can name wr_id. The caller checks opcode and flags.
[[nodiscard]] inline WqeResult ReadSendWqe(const uint8_t* slot, const WqeLimits& limits,
                                           SendWqe& wqe) {
  CopyOnce(&wqe.header, slot, sizeof(wqe.header));
  const uint8_t* tail = slot + sizeof(uroce_send_wqe);
  if (wqe.is_inline()) {
    if (wqe.header.inline_length > limits.max_inline_bytes) return WqeResult::kInlineTooLong;
    CopyOnce(wqe.inline_data, tail, wqe.header.inline_length);
    return WqeResult::kOk;
  }
  if (wqe.header.num_sge > limits.max_sge) return WqeResult::kTooManySges;
  if (wqe.header.num_sge == 1) {  // The usual case, without a call of memcpy.
    CopyOnce(wqe.sges, tail, sizeof(uroce_sge));
  } else {
    CopyOnce(wqe.sges, tail, wqe.header.num_sge * sizeof(uroce_sge));
  }
  return WqeResult::kOk;
}

/// As ReadSendWqe, for a receive queue.
[[nodiscard]] inline WqeResult ReadReceiveWqe(const uint8_t* slot, uint32_t max_sge,
                                              ReceiveWqe& wqe) {
  CopyOnce(&wqe.header, slot, sizeof(wqe.header));
  if (wqe.header.num_sge > max_sge) return WqeResult::kTooManySges;
  CopyOnce(wqe.sges, slot + sizeof(uroce_recv_wqe), wqe.header.num_sge * sizeof(uroce_sge));
  return WqeResult::kOk;
}

/// Writes the header and returns the address for its entries or inline bytes.
inline uint8_t* WriteSendHeader(uint8_t* slot, const uroce_send_wqe& header) {
  memcpy(slot, &header, sizeof(header));
  return slot + sizeof(header);
}

/// Writes a receive header and returns the address for its entries.
inline uint8_t* WriteReceiveHeader(uint8_t* slot, uint64_t wr_id, uint32_t num_sge) {
  const uroce_recv_wqe header = {wr_id, num_sge, 0};
  memcpy(slot, &header, sizeof(header));
  return slot + sizeof(header);
}

/// Writes entry `index` of the list at `tail`.
inline void WriteSge(uint8_t* tail, uint32_t index, uint64_t addr, uint32_t length, uint32_t lkey) {
  const uroce_sge sge = {addr, length, lkey};
  memcpy(tail + index * sizeof(sge), &sge, sizeof(sge));
}

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

  /// The next slot, after kReady. The program can still write to it: copy once.
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
