// SPDX-License-Identifier: Apache-2.0
// Routes: prefixes of addresses, gateways, and what link-local means.
#include "nic/net/route.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

Route Via(const char* prefix, const char* gateway) {
  const InterfaceAddress parsed = Addr(prefix);
  return {parsed.gid, parsed.prefix_bits, G(gateway)};
}
const Route kDefault4{Ipv4Gid(0), 96, G("10.0.0.254")};
const Route kDefault6{Gid{}, 0, G("fd00::ff")};

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

class NextHopTest : public testing::Test {
 protected:
  /// The next hop as text, with the VLAN behind '@' where there is one.
  std::string Hop(const char* source, const char* destination) {
    const auto hop = FindNextHop(addresses, routes, G(source), G(destination));
    if (!hop.ok()) return "none";
    std::string text = FormatAddress(hop->address);
    if (hop->vlan_id != 0) absl::StrAppend(&text, "@", hop->vlan_id);
    return text;
  }

  std::vector<InterfaceAddress> addresses{Addr("10.0.0.1/24"), Addr("fd00::1/64")};
  std::vector<Route> routes;
};

TEST_F(NextHopTest, ADestinationOnLinkIsItsOwnNextHop) {
  EXPECT_EQ(Hop("10.0.0.1", "10.0.0.9"), "10.0.0.9");
  EXPECT_EQ(Hop("fd00::1", "fd00::9"), "fd00::9");
}

TEST_F(NextHopTest, WithoutARouteThereIsNoWay) {
  EXPECT_EQ(Hop("10.0.0.1", "10.0.1.9"), "none");
  EXPECT_EQ(Hop("fd00::1", "fd01::9"), "none");
  EXPECT_EQ(FindNextHop(addresses, routes, G("10.0.0.1"), G("10.0.1.9")).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(NextHopTest, TheGatewayOfTheFamilyTakesTheRest) {
  routes = {kDefault4, kDefault6};
  EXPECT_EQ(Hop("10.0.0.1", "192.0.2.1"), "10.0.0.254");
  EXPECT_EQ(Hop("10.0.0.1", "10.0.0.9"), "10.0.0.9");
  EXPECT_EQ(Hop("fd00::1", "2001:db8::1"), "fd00::ff");
}

TEST_F(NextHopTest, TheIpv6DefaultRouteTakesNoIpv4) {
  routes = {kDefault6};
  EXPECT_EQ(Hop("10.0.0.1", "192.0.2.1"), "none");
}

TEST_F(NextHopTest, TheLongestPrefixDecides) {
  routes = {kDefault4, Via("192.0.2.0/24", "10.0.0.7"), Via("192.0.2.128/25", "10.0.0.8"),
            Via("10.0.0.64/26", "10.0.0.6")};
  EXPECT_EQ(Hop("10.0.0.1", "192.0.2.1"), "10.0.0.7");
  EXPECT_EQ(Hop("10.0.0.1", "192.0.2.200"), "10.0.0.8");
  EXPECT_EQ(Hop("10.0.0.1", "198.51.100.1"), "10.0.0.254");
  EXPECT_EQ(Hop("10.0.0.1", "10.0.0.70"), "10.0.0.6") << "longer than the address's own";
}

TEST_F(NextHopTest, AnAddressComesBeforeARouteOfTheSameLength) {
  routes = {Via("10.0.0.0/24", "10.0.0.7")};
  EXPECT_EQ(Hop("10.0.0.1", "10.0.0.9"), "10.0.0.9");
}

TEST_F(NextHopTest, TheSourceDecidesTheVlan) {
  addresses = {Addr("10.0.0.1/24"), Addr("10.0.0.2/24", 5), Addr("10.5.0.1/24", 5)};
  routes = {{Ipv4Gid(0), 96, G("10.5.0.254")}};
  EXPECT_EQ(Hop("10.0.0.1", "10.0.0.9"), "10.0.0.9");
  EXPECT_EQ(Hop("10.0.0.2", "10.0.0.9"), "10.0.0.9@5");
  EXPECT_EQ(Hop("10.5.0.1", "192.0.2.1"), "10.5.0.254@5");
  EXPECT_EQ(Hop("10.0.0.1", "192.0.2.1"), "none") << "the gateway is on another VLAN";
}

TEST_F(NextHopTest, LinkLocalDestinationsAreOnLink) {
  EXPECT_EQ(Hop("fd00::1", "fe80::9"), "fe80::9");
  EXPECT_EQ(Hop("fe80::1", "fe80::9"), "fe80::9");
}

TEST_F(NextHopTest, LinkLocalSourcesDoNotPassAGateway) {
  routes = {kDefault6};
  EXPECT_EQ(Hop("fe80::1", "2001:db8::1"), "none");
  EXPECT_EQ(Hop("fe80::1", "fd00::9"), "fd00::9");
}

TEST_F(NextHopTest, AGatewayMayBeLinkLocal) {
  routes = {{Gid{}, 0, G("fe80::fe")}};
  EXPECT_EQ(Hop("fd00::1", "2001:db8::1"), "fe80::fe");
}

}  // namespace
}  // namespace uroce::nic
