// SPDX-License-Identifier: Apache-2.0
// Changes of the table, by the control thread.
#include "pipeline/datapath/memory/key_table.h"

#include <bit>

namespace uroce::datapath {

const MemoryRegion KeyTable::kRemoved{};

KeyTable::KeyTable(uint32_t capacity)
    : capacity_(capacity),
      mask_(std::bit_ceil(uint64_t{capacity} * 2 + 2) - 1),
      slots_(std::make_unique<std::atomic<const MemoryRegion*>[]>(mask_ + 1)) {}

bool KeyTable::Publish(const MemoryRegion* region) {
  if (count_ == capacity_ || Find(region->key) != nullptr) return false;
  uint64_t at = Home(region->key);
  while (true) {
    const MemoryRegion* present = slots_[at].load(std::memory_order_relaxed);
    if (present == nullptr || present == &kRemoved) break;
    at = (at + 1) & mask_;
  }
  slots_[at].store(region, std::memory_order_release);
  ++count_;
  return true;
}

uint64_t KeyTable::SlotOf(const MemoryRegion* region) const {
  uint64_t at = Home(region->key);
  for (uint64_t i = 0; slots_[at].load(std::memory_order_relaxed) != region; ++i) {
    if (i > mask_) return mask_ + 1;
    at = (at + 1) & mask_;
  }
  return at;
}

void KeyTable::Replace(const MemoryRegion* old, const MemoryRegion* region) {
  const uint64_t at = SlotOf(old);
  if (at <= mask_) slots_[at].store(region, std::memory_order_release);
}

void KeyTable::Unpublish(const MemoryRegion* region) {
  uint64_t at = SlotOf(region);
  if (at > mask_) return;
  slots_[at].store(&kRemoved, std::memory_order_release);
  --count_;
  // A removed slot in front of an empty one ends no probe early, so it may become empty itself:
  // otherwise probes of absent keys would grow longer for ever.
  if (slots_[(at + 1) & mask_].load(std::memory_order_relaxed) != nullptr) return;
  while (slots_[at].load(std::memory_order_relaxed) == &kRemoved) {
    slots_[at].store(nullptr, std::memory_order_release);
    at = (at - 1) & mask_;
  }
}

}  // namespace uroce::datapath
