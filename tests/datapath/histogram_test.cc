// SPDX-License-Identifier: Apache-2.0
#include "pipeline/base/observation.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

template <typename Kind>
uint32_t OnlyBucketOf(uint64_t value) {
  Kind histogram;
  histogram.Add(value);
  HistogramSums sums;
  histogram.AddTo(sums);
  EXPECT_EQ(sums.sum, value);
  uint32_t found = HistogramShape::kBuckets;
  for (uint32_t i = 0; i < HistogramShape::kBuckets; ++i) {
    if (sums.counts[i] != 0) found = i;
  }
  return found;
}

template <typename Kind>
void CheckBounds() {
  EXPECT_EQ(OnlyBucketOf<Kind>(0), 0u);
  for (uint32_t bucket = 0; bucket < HistogramShape::kBounds; ++bucket) {
    const uint64_t bound = Kind::kShape.BoundOf(bucket);
    EXPECT_EQ(OnlyBucketOf<Kind>(bound), bucket) << "a bound belongs to its bucket: le";
    EXPECT_EQ(OnlyBucketOf<Kind>(bound + 1), bucket + 1);
  }
  EXPECT_EQ(OnlyBucketOf<Kind>(UINT64_MAX), HistogramShape::kBounds);
}

TEST(HistogramTest, EachValueIsInTheFirstBucketWhoseBoundItDoesNotExceed) {
  CheckBounds<LatencyHistogram>();
  CheckBounds<TurnHistogram>();
  CheckBounds<SizeHistogram>();
}

TEST(HistogramTest, BoundsRiseByTheirStep) {
  EXPECT_EQ(LatencyHistogram::kShape.BoundOf(0), 1024u);
  EXPECT_EQ(LatencyHistogram::kShape.BoundOf(14), 1024u << 14);
  EXPECT_EQ(SizeHistogram::kShape.BoundOf(1), 64u);
  EXPECT_EQ(SizeHistogram::kShape.BoundOf(14), uint64_t{1} << 32);
}

TEST(HistogramTest, SumsAreOfAllThatIsAdded) {
  SizeHistogram first, second;
  for (uint64_t value : {1u, 17u, 100u}) first.Add(value);
  second.Add(100);
  HistogramSums sums;
  first.AddTo(sums);
  second.AddTo(sums);
  EXPECT_EQ(sums.sum, 218u);
  EXPECT_EQ(sums.counts[0], 1u);
  EXPECT_EQ(sums.counts[1], 1u);
  EXPECT_EQ(sums.counts[2], 2u);
}

}  // namespace
}  // namespace uroce
