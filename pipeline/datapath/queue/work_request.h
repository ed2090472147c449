// SPDX-License-Identifier: Apache-2.0
// Work requests as a worker copies them from the rings: their checks, their statement in terms of
// the transport, and their lists of memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/work_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

// Private copies of the memory that work requests point to: scatter/gather lists, inline bytes and
// bind requests. Packets, first or resent, are gathered by these copies, never by the ring that the
// program can still write.

/// Lists of the work requests that a send queue's transport holds at once, found by slot: the
/// free-running index of the work request in its queue. Memory is taken at construction.
class SendLists {
 public:
  SendLists(uint32_t held_works, const rings::WqeLimits& limits);

  void Store(uint32_t slot, const rings::SendWqe& wqe);
  void StoreNothing(uint32_t slot) { entries_[slot & mask_] = {}; }
  void StoreBind(uint32_t slot, const BindRequest& request);
  void Prefetch(uint32_t slot) const {
    __builtin_prefetch(&entries_[slot & mask_]);
    __builtin_prefetch(Place(slot));
  }
  /// Notes when the work request was taken: the time is kept in units of 64 ns, modulo 2^32.
  void SetTaken(uint32_t slot, Nanos now) { entries_[slot & mask_].taken = UnitsOf(now); }
  /// How long ago that was. Range: less than 274 s.
  Nanos SinceTaken(uint32_t slot, Nanos now) const {
    return Nanos(int64_t{UnitsOf(now) - entries_[slot & mask_].taken} << kUnitLog2);
  }
  bool is_inline(uint32_t slot) const { return entries_[slot & mask_].inline_length != 0; }
  std::span<const uroce_sge> List(uint32_t slot) const;
  std::span<const uint8_t> InlineBytes(uint32_t slot) const;
  /// Range: what is stored at `slot` is a request to bind.
  BindRequest Bind(uint32_t slot) const;

 private:
  struct Entry {
    uint16_t num_sge = 0;
    uint16_t inline_length = 0;
    uint32_t taken = 0;
  };
  static constexpr uint32_t kUnitLog2 = 6;
  static uint32_t UnitsOf(Nanos now) { return static_cast<uint32_t>(now.count() >> kUnitLog2); }
  uint8_t* Place(uint32_t slot) const { return bytes_.get() + size_t{slot & mask_} * stride_; }

  uint32_t mask_;
  uint32_t stride_;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<uint8_t[]> bytes_;
};

/// The list of the one receive work request that the transport holds.
class ReceiveList {
 public:
  explicit ReceiveList(uint32_t max_sge) : list_(std::make_unique<uroce_sge[]>(max_sge)) {}

  void Store(uint32_t slot, std::span<const uroce_sge> list);
  /// Returns the list of a slot; empty for any other slot than the stored one.
  std::span<const uroce_sge> List(uint32_t slot) const {
    return {list_.get(), slot == slot_ ? count_ : 0};
  }

 private:
  std::unique_ptr<uroce_sge[]> list_;
  uint32_t slot_ = 0;
  uint32_t count_ = 0;
};

/// Checks the private copy of a work request and states it in the transport's terms. A work that
/// cannot be executed (lengths, list, opcode, an atomic without room) comes back `malformed` and
/// completes with LOC_QP_OP_ERR. The shim refuses such a work at the post, so only a program that
/// writes rings by itself causes it. The transport refuses opcodes that `service` lacks.
transport::SendWork ToSendWork(const rings::SendWqe& wqe, rings::WqeResult read, uint32_t slot,
                               wire::Service service);
/// The binding that a work request asks for. Range: it is kBindWindow, and not malformed.
BindRequest ToBindRequest(const uroce_send_wqe& header);
/// ReceiveWork::queue of a work from a shared receive queue. It is 0 for other works, and for XRC
/// the number of the queue, which is greater.
inline constexpr uint32_t kSharedQueue = 1;

transport::ReceiveWork ToReceiveWork(const rings::ReceiveWqe& wqe, rings::WqeResult read,
                                     uint32_t slot);

}  // namespace uroce::datapath
