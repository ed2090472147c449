// SPDX-License-Identifier: Apache-2.0
// Copied parts of older regions are reached by the mapping of a newer one.
#include "nic/objects/remapped_parts.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace uroce::nic {
namespace {

using datapath::MrMode;
using datapath::MrSegment;

uint8_t view[0x10000];

MrSegment Copied(uint64_t addr, uint64_t length) {
  return {.iova = addr + 0x100000,
          .length_bytes = length,
          .mode = MrMode::kCopied,
          .app_addr = addr,
          .follows_address = true,
          .reason = 1};
}

MrSegment Mapped(uint64_t addr, uint64_t length, uint8_t* bytes = view) {
  return {.iova = addr + 0x100000,
          .length_bytes = length,
          .mode = MrMode::kMapped,
          .mapped = bytes,
          .app_addr = addr};
}

/// "c1000+800 m1800+10:20": address and length of copied parts, and for mapped ones the offset of
/// their bytes in `view`. The iova is always 0x100000 further.
std::string TextOf(const std::vector<MrSegment>& segments) {
  std::ostringstream text;
  for (const MrSegment& segment : segments) {
    EXPECT_EQ(segment.iova, segment.app_addr + 0x100000);
    const bool is_mapped = segment.mode == MrMode::kMapped;
    text << (text.str().empty() ? "" : " ") << std::hex << (is_mapped ? 'm' : 'c')
         << segment.app_addr << '+' << segment.length_bytes;
    if (is_mapped) text << ':' << segment.mapped - view;
  }
  return text.str();
}

std::vector<MrSegment> CopyAgain(const std::vector<MrSegment>& segments,
                                 std::span<const uint8_t> mapping) {
  return CopyRemapped(segments, mapping, /*room=*/UINT64_MAX);
}

TEST(RemappedPartsTest, ThePartThatIsMappedElsewhereIsMappedHere) {
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x1000, 0x3000)}, {Mapped(0x2000, 0x1000)})),
            "c1000+1000 m2000+1000:0 c3000+1000");
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x1010, 0x20)}, {Mapped(0x1000, 0x1000)})), "m1010+20:10");
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x1010, 0x2000)}, {Mapped(0x1000, 0x1000)})),
            "m1010+ff0:10 c2000+1010");
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x1000, 0x800), Mapped(0x1800, 8), Copied(0x1808, 8)},
                               {Mapped(0x1000, 0x2000)})),
            "m1000+800:0 m1800+8:0 m1808+8:808");
}

TEST(RemappedPartsTest, ManyPartsOfANewerRegionAreLookedAtOnce) {
  const std::vector<MrSegment> newer = {Mapped(0x1000, 0x1000), Copied(0x2000, 0x1000),
                                        Mapped(0x3000, 0x1000, view + 0x8000),
                                        Mapped(0x4000, 0x1000)};
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x1800, 0x2000)}, newer)),
            "m1800+800:800 c2000+1000 m3000+800:8000");
}

TEST(RemappedPartsTest, WhatWouldHaveTooManyPartsStaysAsItIs) {
  std::vector<MrSegment> newer;
  for (uint64_t i = 0; i < kMaxRemappedParts; ++i) {
    newer.push_back(Mapped(0x10000 + 0x2000 * i, 0x1000));
    newer.push_back(Copied(0x11000 + 0x2000 * i, 0x1000));
  }
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x10000, 0x2000 * kMaxRemappedParts)}, newer)), "");
}

TEST(RemappedPartsTest, WhatWasMappedSoIsMappedAgainWhenThePagesAreReplacedAgain) {
  const auto once = MapRemapped({Copied(0x1000, 0x3000)}, {Mapped(0x1000, 0x3000)});
  EXPECT_EQ(TextOf(MapRemapped(once, {Mapped(0x2000, 0x1000, view + 0x8000)})),
            "m1000+1000:0 m2000+1000:8000 m3000+1000:2000");
}

TEST(RemappedPartsTest, MappedPartsAndOtherAddressesStay) {
  EXPECT_EQ(TextOf(MapRemapped({Mapped(0x1000, 0x1000)}, {Mapped(0x1000, 0x1000)})), "");
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x1000, 0x1000)}, {Mapped(0x2000, 0x1000)})), "");
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x2000, 0x1000)}, {Mapped(0x1000, 0x1000)})), "");
  EXPECT_EQ(TextOf(MapRemapped({Copied(0x2fff, 1)}, {Mapped(0x2000, 0x1000)})), "m2fff+1:fff");
}

// The program is about to have other memory there.
TEST(RemappedPartsTest, WithoutTheMappingItIsCopiedAsBefore) {
  const std::vector<MrSegment> before = {Copied(0x1000, 0x3000)};
  const auto mapped = MapRemapped(before, {Mapped(0x2000, 0x1000)});
  const auto after = CopyAgain(mapped, std::span(view, 0x1000));
  EXPECT_EQ(TextOf(after), "c1000+3000");
  EXPECT_EQ(after.at(0).reason, 1);
  EXPECT_EQ(TextOf(CopyAgain(mapped, std::span(view + 0x8000, 0x1000))), "") << "another's";
  EXPECT_EQ(TextOf(CopyAgain({Mapped(0x1000, 0x1000)}, std::span(view, 0x1000))), "");
}

TEST(RemappedPartsTest, WithoutAPartOfTheMappingThatPartIsCopiedAsBefore) {
  const auto mapped = MapRemapped({Copied(0x1010, 0x3000)}, {Mapped(0x1000, 0x4000)});
  const auto after = CopyAgain(mapped, std::span(view + 0x1000, 0x1000));
  EXPECT_EQ(TextOf(after), "m1010+ff0:10 c2000+1000 m3000+1010:2000");
  EXPECT_EQ(TextOf(CopyAgain(after, std::span(view, 0x2000))), "c1010+1ff0 m3000+1010:2000");
  EXPECT_EQ(TextOf(CopyAgain(after, std::span(view + 0x1000, 0x1000))), "") << "it is copied";
  EXPECT_EQ(TextOf(CopyAgain(mapped, std::span(view + 0x3000, 0x1000))), "m1010+2ff0:10 c4000+10");
}

TEST(RemappedPartsTest, WhatThereIsNoRoomForIsCopiedWhole) {
  const std::vector<MrSegment> mapped =
      MapRemapped({Copied(0x1000, 0x3000), Copied(0x4000, 8)}, {Mapped(0x1000, 0x3000)});
  const auto middle = std::span(view + 0x1000, 0x1000);
  EXPECT_EQ(TextOf(CopyRemapped(mapped, middle, 2)),
            "m1000+1000:0 c2000+1000 m3000+1000:2000 c4000+8");
  EXPECT_EQ(TextOf(CopyRemapped(mapped, middle, 1)), "c1000+3008");
}

TEST(RemappedPartsTest, WhatWouldHaveTooManyPartsIsCopiedWhole) {
  std::vector<MrSegment> parts;
  for (uint64_t i = 0; i < kMaxRemappedParts; ++i) parts.push_back(Mapped(0x10000 + i, 1));
  const uint64_t addr = 0x10000 + kMaxRemappedParts;
  parts.push_back(MapRemapped({Copied(addr, 0x3000)}, {Mapped(addr, 0x3000)}).at(0));
  const auto after = CopyAgain(parts, std::span(view + 0x1000, 0x1000));
  ASSERT_EQ(after.size(), kMaxRemappedParts + 1);
  EXPECT_EQ(TextOf({after.back()}), "c10400+3000");
}

}  // namespace
}  // namespace uroce::nic
