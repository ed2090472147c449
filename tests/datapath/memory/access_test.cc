// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_keys.h"
#include "tests/datapath/memory/test_domains.h"

#include <gtest/gtest.h>

#include <array>

namespace uroce::datapath {
namespace {

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    // Mapped, copied, mapped: 100, 50 and 30 bytes from iova 0x1000.
    region_.key = 0x55;
    region_.pd = kPd;
    region_.access = kLocalWrite | kRemoteRead;
    region_.iova = 0x1000;
    region_.length_bytes = 180;
    region_.segments = {
        {.iova = 0x1000, .length_bytes = 100, .mode = MrMode::kMapped, .mapped = front_.data()},
        {.iova = 0x1064, .length_bytes = 50, .mode = MrMode::kCopied, .app_addr = 0x7000},
        {.iova = 0x1096, .length_bytes = 30, .mode = MrMode::kMapped, .mapped = back_.data()},
    };
    EXPECT_TRUE(keys_.Publish(&region_));
  }

  bool Allowed(uint64_t va, uint64_t length, AccessRight right = {kPd, kLocalRead}) {
    return static_cast<bool>(CheckAccess(keys_, region_.key, va, length, right));
  }

  bool Next(PieceWalker& walker, Piece& piece) {
    if (walker.at_end() || !walker.Look(keys_, piece)) return false;
    walker.Pass(piece);
    return true;
  }

  std::array<uint8_t, 100> front_{};
  std::array<uint8_t, 30> back_{};
  MemoryRegion region_;
  KeyTable keys_{8};
};

TEST_F(AccessTest, RangeMustLieInsideTheRegion) {
  EXPECT_TRUE(Allowed(0x1000, 180));
  EXPECT_TRUE(Allowed(0x10b3, 1));
  EXPECT_FALSE(Allowed(0x1000, 181));
  EXPECT_FALSE(Allowed(0xfff, 2));
  EXPECT_FALSE(Allowed(0x10b4, 1));
  EXPECT_FALSE(Allowed(UINT64_MAX, 2)) << "an address that wraps";
  EXPECT_FALSE(Allowed(0x1000, UINT64_MAX));
}

TEST_F(AccessTest, PdAndRightsMustMatch) {
  EXPECT_FALSE(Allowed(0x1000, 1, {kPd + 1, kLocalRead}));
  EXPECT_TRUE(Allowed(0x1000, 1, {kPd, kRemoteRead}));
  EXPECT_FALSE(Allowed(0x1000, 1, {kPd, kRemoteWrite}));
  EXPECT_FALSE(Allowed(0x1000, 1, {kPd, kLocalWrite | kRemoteAtomic}));
}

TEST_F(AccessTest, UnknownKeyIsDenied) {
  EXPECT_FALSE(CheckAccess(keys_, 0x56, 0x1000, 1, {kPd, kLocalRead}));
}

TEST_F(AccessTest, PiecesEndWithTheirSegment) {
  const Piece first = PieceAt(region_, 0x1060, 100);
  EXPECT_EQ(first.mode, MrMode::kMapped);
  EXPECT_EQ(first.mapped, front_.data() + 96);
  EXPECT_EQ(first.length_bytes, 4u);
  const Piece second = PieceAt(region_, 0x1064, 96);
  EXPECT_EQ(second.mode, MrMode::kCopied);
  EXPECT_EQ(second.app_addr, 0x7000u);
  EXPECT_EQ(second.length_bytes, 50u);
  const Piece third = PieceAt(region_, 0x1097, 29);
  EXPECT_EQ(third.mapped, back_.data() + 1);
  EXPECT_EQ(third.length_bytes, 29u);
}

// Found by a guess where parts are equal, and by search where they are not.
TEST(PieceTest, EveryByteOfManyPartsIsFoundInItsPart) {
  for (const uint64_t odd : {0, 1, 40}) {
    MemoryRegion region;
    region.iova = 0x1000;
    for (uint64_t i = 0; i < 9; ++i) {
      const MrSegment part{.iova = region.iova + region.length_bytes,
                           .length_bytes = i % 3 == 0 ? 16 + odd : 16,
                           .mode = MrMode::kCopied,
                           .app_addr = i << 32};
      region.segments.push_back(part);
      region.length_bytes += part.length_bytes;
    }
    for (const MrSegment& part : region.segments) {
      for (uint64_t at = 0; at < part.length_bytes; ++at) {
        const Piece piece = PieceAt(region, part.iova + at, 1000);
        ASSERT_EQ(piece.app_addr, part.app_addr + at);
        ASSERT_EQ(piece.length_bytes, part.length_bytes - at);
      }
    }
  }
}

TEST_F(AccessTest, WalkerVisitsListAndSegmentsInOrder) {
  const uroce_sge list[] = {{0x1010, 8, 0x55}, {0, 0, 0}, {0x1060, 64, 0x55}};
  PieceWalker walker(list, 4, 64, {kPd, kLocalRead});
  Piece piece;
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mapped, front_.data() + 0x14);
  EXPECT_EQ(piece.length_bytes, 4u);
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mapped, front_.data() + 0x60);
  EXPECT_EQ(piece.length_bytes, 4u);
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mode, MrMode::kCopied);
  EXPECT_EQ(piece.length_bytes, 50u);
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mapped, back_.data());
  EXPECT_EQ(piece.length_bytes, 6u) << "the range ends inside the entry";
  EXPECT_TRUE(walker.at_end());
}

TEST_F(AccessTest, WalkerStopsAtABadEntry) {
  const uroce_sge list[] = {{0x1000, 8, 0x55}, {0x1000, 8, 0x99}};
  PieceWalker walker(list, 0, 16, {kPd, kLocalRead});
  Piece piece;
  EXPECT_TRUE(Next(walker, piece));
  EXPECT_FALSE(walker.at_end());
  EXPECT_FALSE(walker.Look(keys_, piece));
}

TEST_F(AccessTest, WalkerBeyondTheListIsDenied) {
  const uroce_sge list[] = {{0x1000, 8, 0x55}};
  PieceWalker walker(list, 8, 1, {kPd, kLocalRead});
  Piece piece;
  EXPECT_FALSE(walker.at_end());
  EXPECT_FALSE(walker.Look(keys_, piece));
}

TEST_F(AccessTest, ZeroBytesNeedNoKey) {
  const uroce_sge list[] = {{0, 0, 0}};
  const PieceWalker walker(list, 0, 0, {kPd, kLocalWrite});
  EXPECT_TRUE(walker.at_end());
}

}  // namespace
}  // namespace uroce::datapath
