// SPDX-License-Identifier: Apache-2.0
// The GID table (docs/protocol/verbs-semantics.md, sections 1 and 2).
#include "nic/net/net_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr Mac kMac{0x52, 0x54, 0x00, 0x00, 0x00, 0x01};

InterfaceAddress Address(const char* text) { return ParseInterfaceAddress(text).value(); }
GidEntry Untagged(const char* text) { return {Address(text).gid, 0}; }

TEST(GidTableTest, DefaultGidIsAtIndexZeroAndAddressesFollow) {
  GidTable table(kMac);
  EXPECT_TRUE(table.Update(kMac, {Address("10.0.0.1/24"), Address("fd00::1/64")}));
  EXPECT_EQ(table.At(0)->gid, DefaultGid(kMac));
  EXPECT_EQ(table.At(1), Untagged("10.0.0.1"));
  EXPECT_EQ(table.At(2), Untagged("fd00::1"));
  EXPECT_FALSE(table.At(3));
  EXPECT_FALSE(table.At(GidTable::kLength));
}

TEST(GidTableTest, OtherIndicesStayWhenAnAddressGoes) {
  GidTable table(kMac);
  table.Update(kMac, {Address("10.0.0.1/24"), Address("10.0.0.2/24"), Address("10.0.0.3/24")});
  EXPECT_TRUE(table.Update(kMac, {Address("10.0.0.3/24"), Address("10.0.0.1/24")}));
  EXPECT_EQ(table.Find(Untagged("10.0.0.1")), 1u);
  EXPECT_FALSE(table.At(2));
  EXPECT_EQ(table.Find(Untagged("10.0.0.3")), 3u);
  EXPECT_TRUE(
      table.Update(kMac, {Address("10.0.0.4/24"), Address("10.0.0.3/24"), Address("10.0.0.1/24")}));
  EXPECT_EQ(table.Find(Untagged("10.0.0.4")), 2u) << "a freed slot is taken again";
}

TEST(GidTableTest, LinkLocalEqualToTheDefaultIsNotAddedTwice) {
  GidTable table(kMac);
  EXPECT_FALSE(table.Update(kMac, {{DefaultGid(kMac), 64}}));
  EXPECT_FALSE(table.At(1));
}

TEST(GidTableTest, OneAddressInTwoVlansMakesTwoGids) {
  GidTable table(kMac);
  EXPECT_TRUE(table.Update(kMac, {{DefaultGid(kMac), 64}, {DefaultGid(kMac), 64, 100}}));
  EXPECT_EQ(table.At(1), (GidEntry{DefaultGid(kMac), 100}));
  EXPECT_FALSE(table.At(2));
  EXPECT_EQ(table.Find({DefaultGid(kMac), 0}), 0u);
  EXPECT_EQ(table.Find({DefaultGid(kMac), 100}), 1u);
  EXPECT_FALSE(table.Find({DefaultGid(kMac), 200}));
}

TEST(GidTableTest, IndexZeroFollowsTheMac) {
  constexpr Mac kNext{0x52, 0x54, 0x00, 0x00, 0x00, 0x02};
  GidTable table(kMac);
  table.Update(kMac, {Address("10.0.0.1/24"), {DefaultGid(kNext), 64}});
  EXPECT_EQ(table.At(2)->gid, DefaultGid(kNext));
  EXPECT_TRUE(table.Update(kNext, {Address("10.0.0.1/24"), {DefaultGid(kNext), 64}}));
  EXPECT_EQ(table.At(0)->gid, DefaultGid(kNext));
  EXPECT_EQ(table.At(1), Untagged("10.0.0.1"));
  EXPECT_FALSE(table.At(2)) << "what is the default GID now is there once";
  EXPECT_FALSE(table.Find({DefaultGid(kMac), 0}));
}

TEST(GidTableTest, TheSameAddressesChangeNothing) {
  GidTable table(kMac);
  EXPECT_TRUE(table.Update(kMac, {Address("10.0.0.1/24")}));
  EXPECT_FALSE(table.Update(kMac, {Address("10.0.0.1/24")}));
}

TEST(GidTableTest, WhatDoesNotFitIsLeftOut) {
  GidTable table(kMac);
  std::vector<InterfaceAddress> many;
  for (uint32_t i = 1; i <= 40; ++i) many.push_back({Ipv4Gid(0x0a000000 + i), 128});
  table.Update(kMac, many);
  EXPECT_EQ(table.At(GidTable::kLength - 1)->gid, many[GidTable::kLength - 2].gid);
  EXPECT_FALSE(table.Find({many.back().gid, 0}));
}

}  // namespace
}  // namespace uroce::nic
