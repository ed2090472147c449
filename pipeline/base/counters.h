// SPDX-License-Identifier: Apache-2.0
// Counters that one thread writes while others read them, and histograms of them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace uroce {

/// Adds to a counter that only this thread writes: no locked instruction.
inline void Count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

/// Counts values by size. Bounds rise by a power of two, so that a bucket is found without a
/// search. The bounds of a histogram: 2^first_log2, and each of the next 2^step_log2 times the one
/// before.
struct HistogramShape {
  static constexpr uint32_t kBounds = 15;
  static constexpr uint32_t kBuckets = kBounds + 1;  ///< The last one has no bound.
  uint32_t first_log2 = 0;
  uint32_t step_log2 = 1;

  /// The largest value of a bucket. Range: bucket < kBounds.
  constexpr uint64_t BoundOf(uint32_t bucket) const {
    return uint64_t{1} << (first_log2 + step_log2 * bucket);
  }
  constexpr uint32_t BucketOf(uint64_t value) const {
    const auto width = static_cast<uint32_t>(std::bit_width((value - (value != 0)) >> first_log2));
    return std::min((width + step_log2 - 1) / step_log2, kBounds);
  }
};

/// The sum of histograms of one shape.
struct HistogramSums {
  std::array<uint64_t, HistogramShape::kBuckets> counts{};
  uint64_t sum = 0;  ///< Of all values. Wraps.
};

/// One thread adds, with plain stores; others read at any time, and may see a value counted that is
/// not yet part of the sum.
template <HistogramShape kOfShape>
class Histogram {
 public:
  static constexpr HistogramShape kShape = kOfShape;

  void Add(uint64_t value) {
    Count(counts_[kShape.BucketOf(value)], 1);
    Count(sum_, value);
  }
  void AddTo(HistogramSums& sums) const {
    for (uint32_t i = 0; i < HistogramShape::kBuckets; ++i) {
      sums.counts[i] += counts_[i].load(std::memory_order_relaxed);
    }
    sums.sum += sum_.load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, HistogramShape::kBuckets> counts_{};
  std::atomic<uint64_t> sum_{0};
};

/// From 1 us to 17 ms, in ns.
using LatencyHistogram = Histogram<HistogramShape{.first_log2 = 10, .step_log2 = 1}>;
/// From 0.5 us to 8 ms, in ns.
using TurnHistogram = Histogram<HistogramShape{.first_log2 = 9, .step_log2 = 1}>;
/// From 16 bytes to 4 GiB.
using SizeHistogram = Histogram<HistogramShape{.first_log2 = 4, .step_log2 = 2}>;

}  // namespace uroce
