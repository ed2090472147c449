// SPDX-License-Identifier: Apache-2.0
// Addresses (docs/protocol/verbs-semantics.md, sections 1 and 4).
#include "nic/net/address.h"

#include <gtest/gtest.h>

#include <cstring>

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

}  // namespace
}  // namespace uroce::nic
