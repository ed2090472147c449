// SPDX-License-Identifier: Apache-2.0
#include "nic/control/registrations.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::nic {
namespace {

std::vector<uroce_mr_segment> Segments(uint64_t first, size_t count) {
  std::vector<uroce_mr_segment> segments(count);
  for (size_t i = 0; i < count; ++i) segments[i].addr = first + i;
  return segments;
}

std::span<const uint8_t> BytesOf(const std::vector<uroce_mr_segment>& segments) {
  return {reinterpret_cast<const uint8_t*>(segments.data()),
          segments.size() * sizeof(uroce_mr_segment)};
}

TEST(SegmentListTest, WhatCameBeforeComesFirst) {
  SegmentList list;
  EXPECT_TRUE(list.Add(0, 2, BytesOf(Segments(0, 2))).ok());
  EXPECT_TRUE(list.Add(2, 3, BytesOf(Segments(2, 3))).ok());
  const auto all = list.Take(6, BytesOf(Segments(5, 1)));
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 6u);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ((*all)[i].addr, i);
  EXPECT_FALSE(list.Take(6, BytesOf(Segments(5, 1))).ok()) << "they were taken";
}

TEST(SegmentListTest, ARegionOfOneMessageLeavesTheListAlone) {
  SegmentList list;
  EXPECT_TRUE(list.Add(0, 2, BytesOf(Segments(0, 2))).ok());
  EXPECT_EQ(list.Take(1, BytesOf(Segments(9, 1)))->size(), 1u);
  EXPECT_EQ(list.Take(3, BytesOf(Segments(2, 1)))->size(), 3u);
}

TEST(SegmentListTest, ANewListForgetsTheOldOne) {
  SegmentList list;
  EXPECT_TRUE(list.Add(0, 2, BytesOf(Segments(0, 2))).ok());
  EXPECT_TRUE(list.Add(0, 1, BytesOf(Segments(7, 1))).ok());
  EXPECT_EQ(list.Take(2, BytesOf(Segments(8, 1)))->front().addr, 7u);
}

TEST(SegmentListTest, RefusesGapsWrongSizesAndTooMany) {
  SegmentList list;
  EXPECT_FALSE(list.Add(1, 1, BytesOf(Segments(0, 1))).ok());
  EXPECT_FALSE(list.Add(0, 2, BytesOf(Segments(0, 1))).ok());
  EXPECT_FALSE(list.Add(0, UINT32_MAX, BytesOf(Segments(0, 1))).ok());
  EXPECT_FALSE(list.Take(3, BytesOf(Segments(0, 1))).ok());
  EXPECT_FALSE(list.Take(1, BytesOf(Segments(0, 1)).first(7)).ok());
  for (uint32_t first = 0; first < UROCE_MAX_MR_PARTS; first += 64) {
    ASSERT_TRUE(list.Add(first, 64, BytesOf(Segments(first, 64))).ok());
  }
  EXPECT_FALSE(list.Add(UROCE_MAX_MR_PARTS, 1, BytesOf(Segments(0, 1))).ok());
  EXPECT_FALSE(list.Take(UROCE_MAX_MR_PARTS + 1, BytesOf(Segments(0, 1))).ok());
}

}  // namespace
}  // namespace uroce::nic
