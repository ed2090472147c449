// SPDX-License-Identifier: Apache-2.0
// Hosts that find, answer and lose each other, in virtual time.
#include "nic/net/host/host.h"

#include <gtest/gtest.h>

#include "nic/net/host/frame.h"
#include "nic/net/host/group_membership.h"
#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

using Answer = NeighbourCache::Answer;
using Kind = HostEvent::Kind;

class HostTest : public testing::Test {
 protected:
  Host& Up(const Mac& mac, std::vector<InterfaceAddress> addresses,
           std::vector<Route> routes = {}) {
    Host& host = net.Add({mac, std::move(addresses), std::move(routes)});
    net.LinkUp(host);
    return host;
  }
  /// Two hosts whose addresses are in use.
  void MakePair() {
    a = &Up(kMacA, {Addr("10.0.0.1/24"), Addr("fd00::1/64")});
    b = &Up(kMacB, {Addr("10.0.0.2/24"), Addr("fd00::2/64")});
    net.Run(kSecond * 3);
    net.TakeEvents(*a);
    net.TakeEvents(*b);
    net.frames.clear();
  }
  /// Has `from` look for `address`; the MAC that it finds.
  std::optional<Mac> Look(Host& from, const char* address, uint16_t vlan_id = 0) {
    Mac mac{};
    const NextHop hop{G(address), vlan_id};
    if (from.Find(hop, net.now(), mac) == Answer::kKnown) return mac;
    net.Settle();
    if (from.Find(hop, net.now(), mac) == Answer::kKnown) return mac;
    return std::nullopt;
  }
  static Frame Ping4(const Mac& to, const char* source, const char* destination, size_t bytes,
                     uint16_t vlan_id = 0) {
    Frame message(8 + bytes, 0xa5);
    message[0] = kIcmpEchoRequest;
    message[1] = message[2] = message[3] = 0;
    const uint16_t checksum = InternetChecksum(message);
    message[2] = static_cast<uint8_t>(checksum >> 8);
    message[3] = static_cast<uint8_t>(checksum);
    FrameWriter writer({kMacC, to, vlan_id}, wire::kEtherTypeIpv4);
    writer.AddIpv4(G(source), G(destination), kIpProtocolIcmp, message.size());
    writer.AddBytes(message);
    return writer.Finish();
  }
  static Frame Ping6(const Mac& to, const char* source, const Gid& destination) {
    Frame message(16, 0x5a);
    message[0] = kIcmpv6EchoRequest;
    message[1] = 0;
    FrameWriter writer({kMacC, to, 0}, wire::kEtherTypeIpv6);
    writer.AddIpv6(G(source), destination, kIpProtocolIcmpv6, 64, message.size());
    writer.AddIcmpv6(G(source), destination, message);
    return writer.Finish();
  }

  Ethernet net;
  Host* a = nullptr;
  Host* b = nullptr;
};

TEST_F(HostTest, AddressesAreUsableAfterTheirProbes) {
  Host& host = Up(kMacA, {Addr("10.0.0.1/24"), Addr("fd00::1/64")});
  EXPECT_TRUE(host.has_tentative_address());
  EXPECT_TRUE(host.UsableAddresses().empty());
  net.Run(kMilli * 400);
  EXPECT_FALSE(host.has_tentative_address());
  EXPECT_EQ(host.UsableAddresses().size(), 2u);
  EXPECT_EQ(net.Count(net.TakeEvents(host), Kind::kAddressUsable), 3u) << "the link-local one too";
}

TEST_F(HostTest, WithoutALinkAddressesAreUsableAndProbedWhenItComes) {
  Host& host = net.Add({kMacA, {Addr("10.0.0.1/24")}, {}});
  host.OnLink(false, net.now());
  EXPECT_EQ(host.UsableAddresses().size(), 1u);
  net.Settle();
  EXPECT_TRUE(net.frames.empty());
  net.LinkUp(host);
  EXPECT_EQ(host.UsableAddresses().size(), 1u);
  EXPECT_FALSE(net.frames.empty());
}

TEST_F(HostTest, TheSecondWithAnAddressDoesNotGetIt) {
  MakePair();
  Host& c = Up(kMacC, {Addr("10.0.0.1/24"), Addr("fd00::2/64"), Addr("10.0.0.3/24")});
  net.Run(kSecond * 5);
  ASSERT_EQ(c.UsableAddresses().size(), 1u);
  EXPECT_EQ(c.UsableAddresses()[0].gid, G("10.0.0.3"));
  const auto events = net.TakeEvents(c);
  EXPECT_EQ(net.Count(events, Kind::kAddressLost), 2u);
  for (const HostEvent& event : events) {
    if (event.kind != Kind::kAddressLost) continue;
    EXPECT_EQ(event.mac, event.who.address.is_ipv4() ? kMacA : kMacB);
  }
  EXPECT_EQ(a->UsableAddresses().size(), 2u);
  EXPECT_EQ(b->UsableAddresses().size(), 2u);
}

TEST_F(HostTest, TwoThatProbeForOneAddressAtOnceBothLeaveIt) {
  Host& first = net.Add({kMacA, {Addr("10.0.0.1/24"), Addr("fd00::1/64")}, {}});
  Host& second = net.Add({kMacB, {Addr("10.0.0.1/24"), Addr("fd00::1/64")}, {}});
  first.OnLink(true, net.now());
  second.OnLink(true, net.now());
  net.Settle();
  net.Run(kSecond);
  EXPECT_TRUE(first.UsableAddresses().empty());
  EXPECT_TRUE(second.UsableAddresses().empty());
}

TEST_F(HostTest, TheSameAddressOnAnotherVlanIsNoConflict) {
  MakePair();
  Host& c = Up(kMacC, {Addr("10.0.0.1/24", 7)});
  net.Run(kSecond);
  EXPECT_EQ(c.UsableAddresses().size(), 1u);
}

TEST_F(HostTest, AnAddressInUseIsDefendedByAnAnnouncement) {
  MakePair();
  const ArpPacket claim{.is_request = true,
                        .sender_mac = kMacC,
                        .sender = G("10.0.0.1"),
                        .target_mac = {},
                        .target = G("10.0.0.1")};
  net.Inject(MakeArp(claim, {kMacC, kBroadcastMac, 0}));
  EXPECT_EQ(net.Count(net.TakeEvents(*a), Kind::kAddressContested), 1u);
  ASSERT_EQ(net.frames.size(), 1u);
  net.Inject(MakeArp(claim, {kMacC, kBroadcastMac, 0}));
  EXPECT_EQ(net.frames.size(), 1u) << "a fight is not fed";
  EXPECT_EQ(a->UsableAddresses().size(), 2u);
}

TEST_F(HostTest, NeighboursFindEachOtherInBothFamilies) {
  MakePair();
  EXPECT_EQ(Look(*a, "10.0.0.2"), kMacB);
  EXPECT_EQ(Look(*a, "fd00::2"), kMacB);
  EXPECT_EQ(Look(*b, "fd00::1"), kMacA);
  EXPECT_EQ(Look(*a, FormatAddress(DefaultGid(kMacB)).c_str()), kMacB);
}

TEST_F(HostTest, QuestionsGoToEverybodyAndAnswersToOne) {
  MakePair();
  Look(*a, "10.0.0.2");
  Look(*a, "fd00::2");
  ASSERT_EQ(net.frames.size(), 4u);
  EthernetView view;
  const Mac group = MulticastMac(SolicitedNodeGroup(G("fd00::2")));
  const Mac expected[] = {kBroadcastMac, kMacA, group, kMacA};
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(ParseEthernet(net.frames[i], view), FrameResult::kTaken);
    EXPECT_EQ(view.destination, expected[i]) << i;
  }
}

TEST_F(HostTest, ALostQuestionIsRepeated) {
  MakePair();
  int lost = 0;
  net.filter = [&lost](const Frame&) { return ++lost > 1; };
  EXPECT_FALSE(Look(*a, "10.0.0.2"));
  net.Run(NeighbourCache::kRetransmit);
  EXPECT_EQ(Look(*a, "10.0.0.2"), kMacB);
  EXPECT_EQ(net.Count(net.TakeEvents(*a), Kind::kNeighbour), 1u);
}

TEST_F(HostTest, ASilentNeighbourIsReportedOnce) {
  MakePair();
  EXPECT_FALSE(Look(*a, "10.0.0.77"));
  net.Run(kSecond * 2);
  EXPECT_EQ(net.Count(net.TakeEvents(*a), Kind::kNeighbourSilent), 1u);
  EXPECT_EQ(net.frames.size(), 3u);
}

TEST_F(HostTest, AnAnnouncementMovesANeighbour) {
  MakePair();
  Look(*a, "10.0.0.2");
  Look(*a, "fd00::2");
  const auto use4 = a->Hold({G("10.0.0.2"), 0});
  const auto use6 = a->Hold({G("fd00::2"), 0});
  net.TakeEvents(*a);
  net.filter = [](const Frame& frame) { return frame[11] != 0x0b; };  // B is gone.
  Host& c = net.Add({kMacC, {Addr("10.0.0.2/24"), Addr("fd00::2/64")}, {}});
  net.LinkUp(c);
  net.Run(kSecond);
  EXPECT_EQ(net.Count(net.TakeEvents(*a), Kind::kNeighbour), 2u);
  EXPECT_EQ(Look(*a, "10.0.0.2"), kMacC);
  EXPECT_EQ(Look(*a, "fd00::2"), kMacC);
}

TEST_F(HostTest, ANeighbourInUseIsRefreshedAgainAndAgain) {
  MakePair();
  Look(*a, "10.0.0.2");
  Look(*a, "fd00::2");
  const auto use4 = a->Hold({G("10.0.0.2"), 0});
  const auto use6 = a->Hold({G("fd00::2"), 0});
  net.TakeEvents(*a);
  net.Run(kSecond * 600);
  Mac mac{};
  EXPECT_EQ(a->Find({G("10.0.0.2"), 0}, net.now(), mac), Answer::kKnown);
  EXPECT_EQ(a->Find({G("fd00::2"), 0}, net.now(), mac), Answer::kKnown);
  EXPECT_TRUE(net.TakeEvents(*a).empty());
}

TEST_F(HostTest, TagsAreThoseOfTheAddress) {
  a = &Up(kMacA, {Addr("10.0.0.1/24", 5), Addr("fd05::1/64", 5)});
  b = &Up(kMacB, {Addr("10.0.0.2/24", 5), Addr("fd05::2/64", 5)});
  net.Run(kSecond);
  EXPECT_EQ(Look(*a, "10.0.0.2", 5), kMacB);
  EXPECT_EQ(Look(*a, "fd05::2", 5), kMacB);
  EXPECT_FALSE(Look(*a, "10.0.0.2", 6));
  net.frames.clear();
  net.Inject(Ping4(kMacB, "10.0.0.9", "10.0.0.2", 4, 5));
  ASSERT_EQ(net.frames.size(), 1u);
  EthernetView view;
  ASSERT_EQ(ParseEthernet(net.frames[0], view), FrameResult::kTaken);
  EXPECT_EQ(view.vlan_id, 5);
  net.Inject(Ping4(kMacB, "10.0.0.9", "10.0.0.2", 4, 0));
  EXPECT_EQ(net.frames.size(), 1u) << "not an address of the untagged link";
}

TEST_F(HostTest, PingIsAnsweredToTheMacItCameFrom) {
  MakePair();
  net.Inject(Ping4(kMacA, "192.0.2.9", "10.0.0.1", 1000));
  ASSERT_EQ(net.frames.size(), 1u);
  EthernetView view;
  IpView ip;
  ASSERT_EQ(ParseEthernet(net.frames[0], view), FrameResult::kTaken);
  EXPECT_EQ(view.destination, kMacC);
  ASSERT_EQ(ParseIpv4(view.payload, ip), FrameResult::kTaken);
  EXPECT_EQ(ip.destination, G("192.0.2.9"));
  EXPECT_EQ(ip.payload.size(), 1008u);
  EXPECT_EQ(ip.payload[0], kIcmpEchoReply);
  EXPECT_EQ(ip.payload[1007], 0xa5);
  EXPECT_EQ(InternetChecksum(ip.payload), 0);
}

TEST_F(HostTest, Ping6IsAnswered) {
  MakePair();
  net.Inject(Ping6(kMacA, "fd00::9", G("fd00::1")));
  ASSERT_EQ(net.frames.size(), 1u);
  IpView ip;
  ASSERT_EQ(ParseIpv6(Bytes(net.frames[0]).subspan(14), ip), FrameResult::kTaken);
  EXPECT_EQ(ip.payload[0], kIcmpv6EchoReply);
  EXPECT_EQ(Icmpv6Checksum(ip.source, ip.destination, ip.payload), 0);
}

TEST_F(HostTest, PingToEverybodyIsNotAnswered) {
  MakePair();
  net.Inject(Ping4(kBroadcastMac, "10.0.0.9", "10.0.0.1", 4));
  net.Inject(Ping6(MulticastMac(kAllNodes), "fd00::9", kAllNodes));
  EXPECT_TRUE(net.frames.empty());
}

TEST_F(HostTest, AnAddressThatIsNotUsableYetAnswersNothing) {
  Up(kMacA, {Addr("10.0.0.1/24"), Addr("fd00::1/64")});
  net.frames.clear();
  const ArpPacket question{.is_request = true,
                           .sender_mac = kMacC,
                           .sender = G("10.0.0.9"),
                           .target_mac = {},
                           .target = G("10.0.0.1")};
  net.Inject(MakeArp(question, {kMacC, kBroadcastMac, 0}));
  net.Inject(Ping4(kMacA, "10.0.0.9", "10.0.0.1", 4));
  const Gid group = SolicitedNodeGroup(G("fd00::1"));
  net.Inject(MakeSolicitation({G("fd00::9"), group, G("fd00::1"), kMacC},
                              {kMacC, MulticastMac(group), 0}));
  EXPECT_TRUE(net.frames.empty());
}

TEST_F(HostTest, GroupsAreReportedWhenTheLinkComesAndWhenAsked) {
  MakePair();
  Frame query(24, 0);
  query[0] = kIcmpv6ListenerQuery;
  FrameWriter writer({kMacC, MulticastMac(kAllNodes), 0}, wire::kEtherTypeIpv6);
  writer.AddIpv6(G("fe80::c"), kAllNodes, kIpProtocolHopByHop, 1, query.size() + 8);
  writer.AddBytes(std::vector<uint8_t>{kIpProtocolIcmpv6, 0, 5, 2, 0, 0, 1, 0});
  writer.AddIcmpv6(G("fe80::c"), kAllNodes, query);
  const Frame frame = writer.Finish();
  net.Inject(frame);
  net.Inject(frame);
  EXPECT_TRUE(net.frames.empty());
  net.Run(kMilli * 100);
  EXPECT_EQ(net.frames.size(), 2u) << "one answer of each host";
}

TEST_F(HostTest, RoutersAreNotBelieved) {
  MakePair();
  for (const uint8_t type : {kIcmpv6RouterAdvertisement, kIcmpv6Redirect}) {
    Frame message(40, 0);
    message[0] = type;
    FrameWriter writer({kMacC, kMacA, 0}, wire::kEtherTypeIpv6);
    writer.AddIpv6(G("fe80::c"), G("fd00::1"), kIpProtocolIcmpv6, 255, message.size());
    writer.AddIcmpv6(G("fe80::c"), G("fd00::1"), message);
    EXPECT_EQ(a->OnFrame(writer.Finish(), net.now()), FrameResult::kNotForUs);
  }
  EXPECT_FALSE(a->Route(G("fd00::1"), G("2001:db8::1")).ok());
  EXPECT_TRUE(net.TakeEvents(*a).empty());
}

}  // namespace
}  // namespace uroce::nic
