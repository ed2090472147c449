// SPDX-License-Identifier: Apache-2.0
// Changes of the table: between bursts only.
#include "pipeline/datapath/queue/qpn_table.h"

#include <utility>

namespace uroce::datapath {

void QpnTable::Insert(Qpn qpn, QueuePair* queue_pair) {
  if (++size_ * 2 > slots_.size()) Grow();
  Place({.qpn = qpn, .queue_pair = queue_pair});
}

void QpnTable::Place(const Slot& slot) {
  size_t at = slot.qpn.value() & mask_;
  while (slots_[at].queue_pair != nullptr) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void QpnTable::Grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.queue_pair != nullptr) Place(slot);
  }
}

void QpnTable::Erase(Qpn qpn) {
  size_t at = qpn.value() & mask_;
  while (slots_[at].queue_pair != nullptr && slots_[at].qpn != qpn) at = (at + 1) & mask_;
  if (slots_[at].queue_pair == nullptr) return;
  slots_[at] = {};
  --size_;
  // The erased entry may have pushed on the entries that follow without a gap: place them anew.
  for (at = (at + 1) & mask_; slots_[at].queue_pair != nullptr; at = (at + 1) & mask_) {
    Place(std::exchange(slots_[at], {}));
  }
}

}  // namespace uroce::datapath
