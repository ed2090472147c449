// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/acknowledgement.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace uroce::wire {
namespace {

std::vector<uint8_t> MapOf(uint32_t packets, uint64_t bits) {
  std::array<uint8_t, kMaxKeptMapBytes> map{};
  const uint32_t size = WriteKeptMap(
      packets, [bits](uint32_t) { return bits; }, map);
  return {map.begin(), map.begin() + size};
}

TEST(KeptMapTest, LiesOnTheWireAsItIsDescribed) {
  const std::vector<uint8_t> expected = {0, 0, 0, 34, 0x80, 0, 0, 2, 0, 0, 0, 1};
  EXPECT_EQ(MapOf(34, 0x1'8000'0002), expected);
}

TEST(KeptMapTest, WhatWasWrittenIsRead) {
  for (const uint32_t packets : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 1000u, kMaxKeptPackets}) {
    const std::vector<uint8_t> bytes = MapOf(packets, ~uint64_t{0});
    EXPECT_EQ(bytes.size(), KeptMapBytes(packets));
    KeptMap map;
    ASSERT_TRUE(map.Parse(bytes)) << packets;
    EXPECT_EQ(map.packets(), packets);
    uint32_t kept = 0;
    for (uint32_t first = 0; first < kMaxKeptPackets; first += 64) {
      kept += static_cast<uint32_t>(__builtin_popcountll(map.Kept(first)));
    }
    EXPECT_EQ(kept, packets) << "nothing behind the last";
  }
}

TEST(KeptMapTest, WhatIsNoMapIsRefused) {
  KeptMap map;
  EXPECT_FALSE(map.Parse({}));
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0}));
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0, 0})) << "of no packet";
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0, 1})) << "without its word";
  EXPECT_TRUE(map.Parse(std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})) << "too long";
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>(KeptMapBytes(kMaxKeptPackets + 1), 0xff)));
}

TEST(KeptMapTest, BitsBehindTheLastPacketSayNothing) {
  const std::vector<uint8_t> bytes = {0xff, 0xff, 0, 3, 0xff, 0xff, 0xff, 0xff};
  KeptMap map;
  ASSERT_TRUE(map.Parse(bytes)) << "reserved bits are ignored";
  EXPECT_EQ(map.Kept(0), 7u);
}

}  // namespace
}  // namespace uroce::wire
