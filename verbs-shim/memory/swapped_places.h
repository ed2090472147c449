// SPDX-License-Identifier: Apache-2.0
// An approximate set of the swapped pages, for callers that must not wait for the lock.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// Counts swaps by address. One counter stands for 2 MB of addresses, and for others at multiples
/// of some 128 GB from them. Written under the lock of the registrations, read by any thread. Pages
/// that mremap has moved are not counted at their new address.
class SwappedPlaces {
 public:
  void Add(AddressRange pages) { Change(pages, 1); }
  void Remove(AddressRange pages) { Change(pages, UINT32_MAX); }
  void Clear() {
    for (uint32_t& counter : counters_) counter = 0;
    total_ = 0;
  }

  bool MayMeet(AddressRange range) const {
    if (__atomic_load_n(&total_, __ATOMIC_RELAXED) == 0) return false;
    const uint64_t last = LastOf(range);
    for (uint64_t place = First(range); place <= last; ++place) {
      if (__atomic_load_n(&counters_[place % kPlaces], __ATOMIC_RELAXED) != 0) return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t kPlaceBytes = 2 << 20;
  static constexpr uint64_t kPlaces = 1 << 16;

  static uint64_t First(AddressRange range) { return range.start / kPlaceBytes; }
  /// No range needs more than one pass over all counters.
  static uint64_t LastOf(AddressRange range) {
    const uint64_t last = (range.end - 1) / kPlaceBytes;
    const uint64_t most = First(range) + kPlaces - 1;
    return last < most ? last : most;
  }

  void Change(AddressRange pages, uint32_t by) {
    const uint64_t last = LastOf(pages);
    for (uint64_t place = First(pages); place <= last; ++place) {
      __atomic_fetch_add(&counters_[place % kPlaces], by, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&total_, by, __ATOMIC_RELAXED);
  }

  uint32_t counters_[kPlaces] = {};
  uint32_t total_ = 0;
};

}  // namespace uroce::memory
