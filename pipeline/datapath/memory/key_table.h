// SPDX-License-Identifier: Apache-2.0
// Maps keys to regions without a lock: the control thread writes, and any number of workers read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/datapath/memory/memory_region.h"

namespace uroce::datapath {

/// Hash table of published regions. Readers load pointers with acquire order and hold none beyond
/// the turn in which they looked it up.
class KeyTable {
 public:
  /// Room for `capacity` regions.
  explicit KeyTable(uint32_t capacity);
  /// The region that `key` names, or null. Any worker.
  const MemoryRegion* Find(uint32_t key) const {
    for (uint64_t i = 0, at = Home(key); i <= mask_; ++i, at = (at + 1) & mask_) {
      const MemoryRegion* region = slots_[at].load(std::memory_order_acquire);
      if (region == nullptr) return nullptr;
      if (region->key == key && region != &kRemoved) return region;
    }
    return nullptr;
  }
  /// Makes `region` visible under region->key. False: the key is taken, or the table is full.
  /// Control thread.
  [[nodiscard]] bool Publish(const MemoryRegion* region);
  /// Puts `region` in the place of `old`, which is published under the same key. Free `old` only
  /// after every worker has passed a turn. Control thread.
  void Replace(const MemoryRegion* old, const MemoryRegion* region);
  /// Hides `region`. Free it only after every worker has passed a turn. Control thread.
  void Unpublish(const MemoryRegion* region);

 private:
  /// Marks the slot of a removed region, so that probes for other keys pass over it.
  static const MemoryRegion kRemoved;

  /// The slot that holds `region`; `mask_ + 1` when none does.
  uint64_t SlotOf(const MemoryRegion* region) const;
  /// First slot to probe. Keys carry a variant in their low byte, so all bits are mixed.
  uint64_t Home(uint32_t key) const { return (key * 0x9e3779b97f4a7c15u >> 32) & mask_; }

  const uint32_t capacity_;
  const uint64_t mask_;
  std::unique_ptr<std::atomic<const MemoryRegion*>[]> slots_;
  uint32_t count_ = 0;  // Control thread.
};

}  // namespace uroce::datapath
