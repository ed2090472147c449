// SPDX-License-Identifier: Apache-2.0
// Finds the queue pair of a number in a packet. Each worker has its own table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::datapath {

class QueuePair;

/// A table with open addressing, half full at most. Queue pair numbers are random, so their low
/// bits serve as the hash.
class QpnTable {
 public:
  QueuePair* Find(Qpn qpn) const {
    for (size_t at = qpn.value() & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].queue_pair == nullptr || slots_[at].qpn == qpn) return slots_[at].queue_pair;
    }
  }
  /// Prefetches what Find will look at first.
  void Prefetch(Qpn qpn) const { __builtin_prefetch(&slots_[qpn.value() & mask_]); }
  /// Adds a queue pair. Range: `qpn` is not in the table. May allocate, so call it between bursts.
  void Insert(Qpn qpn, QueuePair* queue_pair);
  void Erase(Qpn qpn);
  size_t size() const { return size_; }
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.queue_pair != nullptr) visit(*slot.queue_pair);
    }
  }
  /// How many slots of the table one ForSome looks at.
  struct Piece {
    size_t most_queue_pairs = 0;
    size_t most_slots = 0;
  };
  /// Calls `visit` for the queue pairs of one piece of the table, from position `from` on; 0 is the
  /// beginning. Returns the position to continue at, while the table does not change; 0 at the end.
  template <typename Visitor>
  size_t ForSome(size_t from, Piece piece, Visitor&& visit) const {
    const size_t end = std::min(slots_.size(), from + piece.most_slots);
    for (; from < end && piece.most_queue_pairs != 0; ++from) {
      if (slots_[from].queue_pair == nullptr) continue;
      visit(*slots_[from].queue_pair);
      --piece.most_queue_pairs;
    }
    return from < slots_.size() ? from : 0;
  }

 private:
  struct Slot {
    Qpn qpn;
    QueuePair* queue_pair = nullptr;
  };
  void Grow();
  void Place(const Slot& slot);

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  size_t mask_ = 63;
  size_t size_ = 0;
};

}  // namespace uroce::datapath
