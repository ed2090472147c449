// SPDX-License-Identifier: Apache-2.0
// Addresses and the GID table (docs/protocol/verbs-semantics.md, sections 1, 2 and 4).
#include <gtest/gtest.h>

#include <cstring>

#include "nic/net/address.h"
#include "nic/net/net_device.h"
#include "nic/net/route.h"

namespace uroce::nic {
namespace {

constexpr Mac kMac{0x52, 0x54, 0x00, 0x00, 0x00, 0x01};

InterfaceAddress Address(const char* text) { return ParseInterfaceAddress(text).value(); }

TEST(AddressTest, DefaultGidIsLinkLocalEui64OfTheMac) {
  EXPECT_EQ(FormatAddress(DefaultGid(kMac)), "fe80::5054:ff:fe00:1");
}

TEST(AddressTest, NodeGuidIsEui64InBigEndian) {
  const uint8_t expected[8] = {0x50, 0x54, 0x00, 0xff, 0xfe, 0x00, 0x00, 0x01};
  const uint64_t guid = NodeGuid(kMac);
  EXPECT_EQ(std::memcmp(&guid, expected, 8), 0);
}

TEST(AddressTest, Ipv4IsMappedIntoTheGid) {
  const Gid gid = Address("10.0.0.1/24").gid;
  EXPECT_TRUE(gid.is_ipv4());
  EXPECT_EQ(FormatGid(gid), "0000:0000:0000:0000:0000:ffff:0a00:0001");
  EXPECT_EQ(FormatInterfaceAddress(Address("10.0.0.1/24")), "10.0.0.1/24");
  EXPECT_EQ(FormatInterfaceAddress(Address("fd00::1/64")), "fd00::1/64");
}

TEST(AddressTest, VlanStandsBehindTheAddress) {
  EXPECT_EQ(Address("10.0.0.1/24").vlan_id, 0);
  EXPECT_EQ(Address("10.0.0.1/24 vlan 100").vlan_id, 100);
  EXPECT_EQ(Address("  fd00::1   vlan  4094 ").vlan_id, 4094);
  EXPECT_EQ(FormatInterfaceAddress(Address("10.0.0.1/24 vlan 100")), "10.0.0.1/24 vlan 100");
}

TEST(RouteTest, PrefixAndGatewayAreOfOneFamily) {
  const Route route = ParseRoute("10.9.0.0/16 via 192.0.2.7").value();
  EXPECT_EQ(FormatAddress(route.prefix), "10.9.0.0");
  EXPECT_EQ(route.prefix_bits, 112);
  EXPECT_EQ(FormatAddress(route.gateway), "192.0.2.7");
  EXPECT_EQ(ParseRoute("2001:db8::/32 via fe80::1")->prefix_bits, 32);
  EXPECT_FALSE(ParseRoute("2001:db8::/32 via 192.0.2.7").ok());
}

TEST(RouteTest, GatewayIsTheDefaultRouteOfItsFamily) {
  EXPECT_EQ(FormatRoute(*ParseGateway("192.0.2.254")), "0.0.0.0/0 via 192.0.2.254");
  EXPECT_EQ(ParseGateway("192.0.2.254")->prefix_bits, 96);
  EXPECT_EQ(FormatRoute(*ParseGateway("fe80::1")), "::/0 via fe80::1");
  EXPECT_EQ(ParseGateway("fe80::1")->prefix_bits, 0);
  EXPECT_FALSE(ParseGateway("224.0.0.1").ok());
  EXPECT_FALSE(ParseGateway("::").ok());
}

TEST(AddressTest, OnLinkComparesThePrefixToTheBit) {
  EXPECT_TRUE(OnLink(Address("10.0.0.1/24"), Address("10.0.0.200").gid));
  EXPECT_FALSE(OnLink(Address("10.0.0.1/24"), Address("10.0.1.1").gid));
  EXPECT_TRUE(OnLink(Address("10.0.0.1/23"), Address("10.0.1.1").gid));
  EXPECT_FALSE(OnLink(Address("10.0.0.1/25"), Address("10.0.0.200").gid));
  EXPECT_TRUE(OnLink(Address("fd00::1/64"), Address("fd00::ffff:1").gid));
  EXPECT_FALSE(OnLink(Address("fd00::1/64"), Address("fd00:0:0:1::1").gid));
  EXPECT_FALSE(OnLink(Address("10.0.0.1/24"), Address("fd00::1").gid));
}

TEST(AddressTest, MulticastMacOfBothFamilies) {
  EXPECT_EQ(FormatMac(MulticastMac(Ipv4Gid(0xef812a03))), "01:00:5e:01:2a:03");
  Gid group;
  group.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78};
  EXPECT_EQ(FormatMac(MulticastMac(group)), "33:33:12:34:56:78");
}

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
