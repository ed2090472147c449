// SPDX-License-Identifier: Apache-2.0
// What hosts say of multicast groups: IGMP (RFC 3376, RFC 2236) and MLDv2 (RFC 3810).
#include <gtest/gtest.h>

#include "nic/net/host/frame.h"
#include "nic/net/host/group_membership.h"
#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

const Gid kGroup4 = Ipv4Gid(0xef010203);
const Gid kGroup6{{0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x07}};
constexpr uint8_t kQuery = 0x11;
constexpr uint8_t kReport2 = 0x16;
constexpr uint8_t kLeave2 = 0x17;
constexpr uint8_t kReport3 = 0x22;

/// A group that a frame speaks of, and how.
struct Said {
  uint8_t type = 0;
  uint8_t record = 0;
  Gid group;
  Gid destination;
};

Gid Ipv4At(Bytes bytes, size_t at) {
  return Ipv4Gid(uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 |
                 uint32_t{bytes[at + 2]} << 8 | bytes[at + 3]);
}

class HostGroupsTest : public testing::Test {
 protected:
  HostGroupsTest() : host(net.Add({kMacA, {Addr("10.0.0.1/24"), Addr("fd00::1/64")}, {}})) {
    net.LinkUp(host);
    net.Run(kSecond * 3);
    net.frames.clear();
  }
  /// All that was said by IGMP since, each record apart.
  std::vector<Said> TakeIgmp() {
    std::vector<Said> all;
    for (const Frame& frame : net.frames) {
      EthernetView ethernet;
      IpView ip;
      if (ParseEthernet(frame, ethernet) != FrameResult::kTaken) continue;
      if (ethernet.ether_type != wire::kEtherTypeIpv4) continue;
      if (ParseIpv4(ethernet.payload, ip) != FrameResult::kTaken) continue;
      if (ip.protocol != kIpProtocolIgmp) continue;
      EXPECT_EQ(ip.hop_limit, 1);
      EXPECT_TRUE(ip.has_options) << "router alert";
      EXPECT_EQ(InternetChecksum(ip.payload), 0);
      EXPECT_EQ(ip.source, G("10.0.0.1"));
      EXPECT_EQ(ethernet.destination, MulticastMac(ip.destination));
      if (ip.payload[0] != kReport3) {
        all.push_back({ip.payload[0], 0, Ipv4At(ip.payload, 4), ip.destination});
        continue;
      }
      for (size_t at = 8; at + 8 <= ip.payload.size(); at += 8) {
        all.push_back({kReport3, ip.payload[at], Ipv4At(ip.payload, at + 4), ip.destination});
      }
    }
    net.frames.clear();
    return all;
  }
  /// Records of `group` in listener reports since: their types.
  std::vector<uint8_t> TakeMld(const Gid& group) {
    std::vector<uint8_t> types;
    for (const Frame& frame : net.frames) {
      EthernetView ethernet;
      IpView ip;
      if (ParseEthernet(frame, ethernet) != FrameResult::kTaken) continue;
      if (ethernet.ether_type != wire::kEtherTypeIpv6) continue;
      if (ParseIpv6(ethernet.payload, ip) != FrameResult::kTaken) continue;
      if (ip.payload.empty() || ip.payload[0] != kIcmpv6ListenerReport) continue;
      for (size_t at = 8; at + 20 <= ip.payload.size(); at += 20) {
        if (std::equal(group.bytes.begin(), group.bytes.end(), ip.payload.begin() + at + 4)) {
          types.push_back(ip.payload[at]);
        }
      }
    }
    net.frames.clear();
    return types;
  }
  /// A general query; of version 2 it is 8 bytes long.
  void Query(size_t bytes) {
    Frame message(bytes, 0);
    message[0] = kQuery;
    message[1] = 100;
    const uint16_t checksum = InternetChecksum(message);
    message[2] = static_cast<uint8_t>(checksum >> 8);
    message[3] = static_cast<uint8_t>(checksum);
    const Gid all = Ipv4Gid(0xe0000001);
    FrameWriter writer({kMacC, MulticastMac(all), 0}, wire::kEtherTypeIpv4);
    writer.AddIpv4WithRouterAlert(G("10.0.0.9"), all, kIpProtocolIgmp, 1, message.size());
    writer.AddBytes(message);
    net.Inject(writer.Finish());
    net.Run(kSecond);
  }

  Ethernet net;
  Host& host;
};

TEST_F(HostGroupsTest, JoiningIsSaidTwiceAndLeavingOnce) {
  host.Join(kGroup4, net.now());
  net.Settle();
  std::vector<Said> said = TakeIgmp();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].type, kReport3);
  EXPECT_EQ(said[0].record, 4) << "to EXCLUDE{}";
  EXPECT_EQ(said[0].group, kGroup4);
  EXPECT_EQ(said[0].destination, Ipv4Gid(0xe0000016));
  net.Run(kSecond * 2);
  EXPECT_EQ(TakeIgmp().size(), 1u);
  net.Run(kSecond * 10);
  EXPECT_TRUE(TakeIgmp().empty());
  host.Leave(kGroup4);
  net.Settle();
  said = TakeIgmp();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].record, 3) << "to INCLUDE{}";
}

TEST_F(HostGroupsTest, GroupsOfIpv6AreSaidByListenerDiscovery) {
  host.Join(kGroup6, net.now());
  net.Settle();
  EXPECT_EQ(TakeMld(kGroup6), std::vector<uint8_t>{4});
  net.Run(kSecond * 2);
  EXPECT_EQ(TakeMld(kGroup6), std::vector<uint8_t>{4});
  host.Leave(kGroup6);
  net.Settle();
  EXPECT_EQ(TakeMld(kGroup6), std::vector<uint8_t>{3});
}

TEST_F(HostGroupsTest, AQueryIsAnsweredWithWhatIsJoined) {
  Query(12);
  EXPECT_TRUE(TakeIgmp().empty()) << "no group, no answer";
  host.Join(kGroup4, net.now());
  net.Run(kSecond * 2);
  TakeIgmp();
  Query(12);
  const std::vector<Said> said = TakeIgmp();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].group, kGroup4);
  EXPECT_EQ(said[0].type, kReport3);
}

TEST_F(HostGroupsTest, AnOlderRouterGetsReportsOfItsVersionForAWhile) {
  host.Join(kGroup4, net.now());
  net.Run(kSecond * 2);
  TakeIgmp();
  Query(8);
  std::vector<Said> said = TakeIgmp();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].type, kReport2);
  EXPECT_EQ(said[0].destination, kGroup4) << "to the group itself";
  host.Leave(kGroup4);
  net.Settle();
  said = TakeIgmp();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].type, kLeave2);
  EXPECT_EQ(said[0].destination, Ipv4Gid(0xe0000002));
  net.Run(kSecond * 300);
  host.Join(kGroup4, net.now());
  net.Settle();
  net.Run(kSecond * 2);
  said = TakeIgmp();
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.back().type, kReport3);
}

TEST_F(HostGroupsTest, WrongQueriesAreRefused) {
  IpView query{.hop_limit = 1};
  bool is_old = false;
  Frame message(8, 0);
  const auto check = [&] {
    query.payload = message;
    return CheckIgmpQuery(query, is_old);
  };
  message[0] = kQuery;
  EXPECT_EQ(check(), FrameResult::kBadChecksum);
  message[2] = 0xee;
  message[3] = 0xff;
  EXPECT_EQ(check(), FrameResult::kTaken);
  EXPECT_TRUE(is_old);
  query.hop_limit = 2;
  EXPECT_EQ(check(), FrameResult::kBadHeader) << "from beyond a router";
  message.resize(7);
  EXPECT_EQ(check(), FrameResult::kTruncated);
}

TEST_F(HostGroupsTest, ALinkThatComesBackIsToldAllGroups) {
  host.OnLink(false, net.now());
  host.Join(kGroup4, net.now());
  net.Settle();
  EXPECT_TRUE(TakeIgmp().empty());
  net.LinkUp(host);
  net.Run(kSecond);
  bool found = false;
  for (const Frame& frame : net.frames) {
    EthernetView ethernet;
    IpView ip;
    if (ParseEthernet(frame, ethernet) != FrameResult::kTaken) continue;
    if (ethernet.ether_type != wire::kEtherTypeIpv4) continue;
    if (ParseIpv4(ethernet.payload, ip) != FrameResult::kTaken) continue;
    found |= ip.protocol == kIpProtocolIgmp;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace uroce::nic
