// SPDX-License-Identifier: Apache-2.0
// Counters that one thread writes while others read them.
#pragma once

#include <atomic>
#include <cstdint>

namespace uroce {

/// Adds to a counter that only this thread writes: no locked instruction.
inline void Count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace uroce
