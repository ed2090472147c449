// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/copy_helper.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::datapath {
namespace {

class CopyVectorTest : public testing::Test {
 protected:
  void Add(uint64_t app_addr, uint32_t length_bytes) {
    job_.pieces[job_.piece_count++] = {app_addr, frame_.data() + 256 * job_.piece_count,
                                       length_bytes};
  }
  /// Lengths of the entries from a piece on.
  std::vector<size_t> Lengths(CopyJob::Kind kind, uint32_t first = 0) {
    job_.kind = kind;
    const CopyVector vector = GatherPieces(job_, first);
    std::vector<size_t> lengths;
    for (int i = 0; i < vector.count; ++i) lengths.push_back(vector.entries[i].iov_len);
    return lengths;
  }

  std::vector<uint8_t> frame_ = std::vector<uint8_t>(256 * CopyJob::kMaxPieces);
  CopyJob job_;
};

using Kind = CopyJob::Kind;
using Sizes = std::vector<size_t>;

TEST_F(CopyVectorTest, TheLastAlignedEightBytesAreWrittenAfterAllOthers) {
  Add(0x1000, 256);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{248, 8}));
  const CopyVector vector = GatherPieces(job_, 0);
  EXPECT_EQ(vector.entries[0].iov_base, frame_.data());
  EXPECT_EQ(vector.entries[1].iov_base, frame_.data() + 248);
}

TEST_F(CopyVectorTest, OfAnUnalignedEndOnlyWhatItHasOfTheEightBytes) {
  Add(0x1003, 256);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{253, 3}));
}

TEST_F(CopyVectorTest, WhatIsInOneAlignedPieceIsOneEntry) {
  Add(0x1002, 6);
  EXPECT_EQ(Lengths(Kind::kWrite), Sizes{6});
}

TEST_F(CopyVectorTest, OnlyTheLastPieceOfAWriteHasAnEnd) {
  Add(0x1000, 64);
  Add(0x1040, 64);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{64, 56, 8}));
  EXPECT_EQ(Lengths(Kind::kWrite, 1), (Sizes{56, 8}));
  EXPECT_EQ(Lengths(Kind::kRead), (Sizes{64, 64}));
}

TEST_F(CopyVectorTest, PiecesThatDoNotFollowAreOfAnotherCall) {
  Add(0x1000, 64);
  Add(0x2000, 64);
  EXPECT_EQ(Lengths(Kind::kWrite), Sizes{64});
  EXPECT_EQ(Lengths(Kind::kWrite, 1), (Sizes{56, 8}));
}

TEST_F(CopyVectorTest, TheMostPiecesHaveRoomForTheEnd) {
  for (uint32_t i = 0; i < CopyJob::kMaxPieces; ++i) Add(0x1000 + uint64_t{i} * 64, 64);
  EXPECT_EQ(Lengths(Kind::kWrite).size(), CopyJob::kMaxPieces + 1);
}

}  // namespace
}  // namespace uroce::datapath
