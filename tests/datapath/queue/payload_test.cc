// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "pipeline/wire/icrc.h"
#include "tests/datapath/memory/test_domains.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kNullKey = 0x100;
constexpr uint32_t kMappedKey = 0x200;

/// A list of three entries: mapped, null, mapped.
class PayloadTest : public testing::Test {
 protected:
  static constexpr uint32_t kEntryBytes = 16;

  PayloadTest() {
    null_.key = kNullKey;
    null_.pd = mapped_.pd = kPd;
    null_.access = mapped_.access = kLocalWrite;
    null_.length_bytes = UINT64_MAX;
    null_.segments = {{.length_bytes = UINT64_MAX, .mode = MrMode::kNull}};
    mapped_.key = kMappedKey;
    mapped_.iova = 0x1000;
    mapped_.length_bytes = memory_.size();
    mapped_.segments = {{.iova = 0x1000, .length_bytes = memory_.size(), .mapped = memory_.data()}};
    EXPECT_TRUE(keys_.Publish(&null_));
    EXPECT_TRUE(keys_.Publish(&mapped_));
    std::iota(frame_.begin(), frame_.end(), uint8_t{1});
    memory_.fill(0xaa);
  }

  PieceWalker Walker(uint32_t rights) {
    return {list_, 0, 3 * kEntryBytes, {.pd = kPd, .rights = rights}};
  }
  /// Whether the null entry's part of the frame is zeros, and the others are the memory's.
  bool HoldsZerosBetween() const {
    const auto middle = frame_.begin() + kEntryBytes;
    return std::count(middle, middle + kEntryBytes, 0) == kEntryBytes && frame_[0] == 0xaa &&
           frame_.back() == 0xaa;
  }

  std::array<uint8_t, 2 * kEntryBytes> memory_;
  std::array<uint8_t, 3 * kEntryBytes> frame_;
  // The null one at an address where nothing is.
  const std::array<uroce_sge, 3> list_{{{0x1000, kEntryBytes, kMappedKey},
                                        {UINT64_MAX - kEntryBytes, kEntryBytes, kNullKey},
                                        {0x1000 + kEntryBytes, kEntryBytes, kMappedKey}}};
  MemoryRegion null_;
  MemoryRegion mapped_;
  KeyTable keys_{8};
};

TEST_F(PayloadTest, ANullRegionDropsWhatIsWritten) {
  PieceWalker walker = Walker(kLocalWrite);
  uint8_t* bytes = frame_.data();
  ASSERT_EQ(Place(keys_, walker, bytes), MoveResult::kDone);
  EXPECT_EQ(bytes, frame_.data() + frame_.size());
  EXPECT_TRUE(std::equal(memory_.begin(), memory_.begin() + kEntryBytes, frame_.begin()));
  EXPECT_TRUE(
      std::equal(memory_.begin() + kEntryBytes, memory_.end(), frame_.begin() + 2 * kEntryBytes));
}

TEST_F(PayloadTest, ANullRegionReadsAsZeros) {
  PieceWalker walker = Walker(kLocalRead);
  uint8_t* bytes = frame_.data();
  ASSERT_EQ(Gather(keys_, walker, bytes), MoveResult::kDone);
  EXPECT_TRUE(HoldsZerosBetween());
}

TEST_F(PayloadTest, TheCrcCountsTheZerosOfANullRegion) {
  PieceWalker walker = Walker(kLocalRead);
  uint8_t* bytes = frame_.data();
  RunningIcrc icrc(0x12345678, false);
  ASSERT_EQ(GatherWithIcrc(keys_, walker, bytes, icrc), MoveResult::kDone);
  EXPECT_TRUE(HoldsZerosBetween());
  EXPECT_EQ(icrc.state(), wire::Crc32Update(0x12345678, frame_));
}

TEST_F(PayloadTest, WithoutAnIcrcTheSameBytesAreRead) {
  PieceWalker walker = Walker(kLocalRead);
  uint8_t* bytes = frame_.data();
  RunningIcrc icrc(0x12345678, true);
  ASSERT_EQ(GatherWithIcrc(keys_, walker, bytes, icrc), MoveResult::kDone);
  EXPECT_TRUE(HoldsZerosBetween());
}

}  // namespace
}  // namespace uroce::datapath
