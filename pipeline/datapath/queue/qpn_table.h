// SPDX-License-Identifier: Apache-2.0
// From the number in a packet to the queue pair. One worker's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::datapath {

class QueuePair;

/// Open addressing over at most half full slots. Queue pair numbers are random, so their low bits
/// are hash enough.
class QpnTable {
 public:
  QueuePair* Find(Qpn qpn) const {
    for (size_t at = qpn.value() & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].queue_pair == nullptr || slots_[at].qpn == qpn) return slots_[at].queue_pair;
    }
  }
  /// Fetches into the cache what Find will look at first.
  void Prefetch(Qpn qpn) const { __builtin_prefetch(&slots_[qpn.value() & mask_]); }
  /// `qpn` is not in the table. May allocate: between bursts.
  void Insert(Qpn qpn, QueuePair* queue_pair);
  void Erase(Qpn qpn);
  size_t size() const { return size_; }
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.queue_pair != nullptr) visit(*slot.queue_pair);
    }
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
