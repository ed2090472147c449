// SPDX-License-Identifier: Apache-2.0
// Frames of the host: what is made is taken apart again, and refused where it is wrong.
#include "nic/net/host/frame.h"

#include <gtest/gtest.h>

#include "nic/net/host/group_membership.h"
#include "nic/net/host/neighbour_messages.h"
#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

TEST(ChecksumTest, IsThatOfTheExampleInRfc1071) {
  const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(InternetChecksum(bytes), static_cast<uint16_t>(~0xddf2));
}

TEST(ChecksumTest, AnOddByteCountsAsTheHighHalf) {
  const uint8_t bytes[] = {0x00, 0x01, 0x80};
  EXPECT_EQ(InternetChecksum(bytes), static_cast<uint16_t>(~0x8001));
}

TEST(ChecksumTest, Icmpv6CoversThePseudoHeader) {
  const Gid source = G("fe80::2");
  const Gid destination = SolicitedNodeGroup(G("fe80::1"));
  const Frame frame =
      MakeSolicitation({source, destination, G("fe80::1"), kMacB}, {kMacB, kMacA, 0});
  const Bytes message = Bytes(frame).subspan(14 + 40);
  EXPECT_EQ(Icmpv6Checksum(source, destination, message), 0);
  EXPECT_NE(Icmpv6Checksum(G("fe80::3"), destination, message), 0);
}

TEST(FrameTest, FramesArePaddedToTheLeastOfEthernet) {
  EXPECT_EQ(MakeArp({}, {kMacA, kMacB, 0}).size(), 60u);
}

TEST(FrameTest, ATagIsWrittenAndReadAndAPriorityTagIsNone) {
  Frame frame = MakeArp({}, {kMacA, kMacB, 100});
  EthernetView view;
  ASSERT_EQ(ParseEthernet(frame, view), FrameResult::kTaken);
  EXPECT_EQ(view.vlan_id, 100);
  EXPECT_EQ(view.ether_type, kEtherTypeArp);
  frame[14] = 0xe0;  // Priority 7, VLAN 0.
  frame[15] = 0;
  ASSERT_EQ(ParseEthernet(frame, view), FrameResult::kTaken);
  EXPECT_EQ(view.vlan_id, 0);
}

TEST(FrameTest, Ipv4PaddingIsNotPayload) {
  FrameWriter writer({kMacA, kMacB, 0}, wire::kEtherTypeIpv4);
  writer.AddIpv4(G("10.0.0.1"), G("10.0.0.2"), kIpProtocolIcmp, 8);
  writer.AddBytes(std::vector<uint8_t>(8, 7));
  const Frame frame = writer.Finish();
  IpView ip;
  ASSERT_EQ(ParseIpv4(Bytes(frame).subspan(14), ip), FrameResult::kTaken);
  EXPECT_EQ(ip.payload.size(), 8u);
  EXPECT_EQ(ip.source, G("10.0.0.1"));
  EXPECT_EQ(ip.destination, G("10.0.0.2"));
}

TEST(ArpTest, WhatIsMadeIsRead) {
  const ArpPacket packet{.is_request = false,
                         .sender_mac = kMacA,
                         .sender = G("10.0.0.1"),
                         .target_mac = kMacB,
                         .target = G("10.0.0.2")};
  const Frame frame = MakeArp(packet, {kMacA, kMacB, 0});
  ArpPacket read;
  ASSERT_EQ(ParseArp(Bytes(frame).subspan(14), read), FrameResult::kTaken);
  EXPECT_EQ(read.sender, packet.sender);
  EXPECT_EQ(read.target, packet.target);
  EXPECT_EQ(read.sender_mac, kMacA);
  EXPECT_FALSE(read.is_request);
  EXPECT_FALSE(IsArpProbe(read));
}

TEST(NdpTest, TheGroupOfAnAddressHasItsLow24Bits) {
  EXPECT_EQ(FormatAddress(SolicitedNodeGroup(G("fd00::12:3456"))), "ff02::1:ff12:3456");
}

/// A solicitation of B for an address of A, as its receiver sees the IP packet.
IpView Solicitation(Frame& frame, const NeighbourSolicitation& solicitation) {
  frame = MakeSolicitation(solicitation, {kMacB, kMacA, 0});
  IpView ip;
  EXPECT_EQ(ParseIpv6(Bytes(frame).subspan(14), ip), FrameResult::kTaken);
  return ip;
}

TEST(NdpTest, SolicitationsHoldToTheChecksOfRfc4861) {
  Frame frame;
  const Gid target = G("fd00::1");
  const Gid group = SolicitedNodeGroup(target);
  NeighbourSolicitation read;
  IpView ip = Solicitation(frame, {G("fd00::2"), group, target, kMacB});
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kTaken);
  EXPECT_EQ(read.source_mac, kMacB);
  ip.hop_limit = 254;  // It came through a router.
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kBadHeader);
  ip = Solicitation(frame, {Gid{}, group, target, std::nullopt});
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kTaken);
  ip = Solicitation(frame, {Gid{}, group, target, kMacB});
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kBadAddress) << "no host's MAC";
  ip = Solicitation(frame, {Gid{}, target, target, std::nullopt});
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kBadAddress) << "not to the group";
  ip = Solicitation(frame, {G("fd00::2"), group, kAllNodes, kMacB});
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kBadAddress) << "a group has no MAC to ask";
}

TEST(NdpTest, OptionsOfLengthZeroOrTooLongAreRefused) {
  Frame frame;
  const Gid target = G("fd00::1");
  NeighbourSolicitation read;
  IpView ip = Solicitation(frame, {G("fd00::2"), SolicitedNodeGroup(target), target, kMacB});
  uint8_t& length = frame[14 + 40 + 24 + 1];
  length = 0;
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kBadHeader);
  length = 2;
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kTruncated);
  ip.payload = ip.payload.first(25);
  EXPECT_EQ(ParseSolicitation(ip, read), FrameResult::kTruncated);
}

TEST(NdpTest, ASolicitedAdvertisementToAllIsRefused) {  // RFC 4861, 7.1.2.
  const NeighbourAdvertisement made{.source = G("fd00::2"),
                                    .destination = kAllNodes,
                                    .target = G("fd00::2"),
                                    .solicited = true,
                                    .overrides = true,
                                    .target_mac = kMacB};
  const Frame frame = MakeAdvertisement(made, {kMacB, kMacA, 0});
  IpView ip;
  ASSERT_EQ(ParseIpv6(Bytes(frame).subspan(14), ip), FrameResult::kTaken);
  NeighbourAdvertisement read;
  EXPECT_EQ(ParseAdvertisement(ip, read), FrameResult::kBadHeader);
}

TEST(MldTest, AReportIsBehindARouterAlertAndRight) {
  const Gid source = G("fe80::1");
  const Frame frame =
      MakeListenerReport(source, {SolicitedNodeGroup(source)}, Membership::kJoined, {kMacA, {}, 0});
  EthernetView ethernet;
  ASSERT_EQ(ParseEthernet(frame, ethernet), FrameResult::kTaken);
  EXPECT_EQ(FormatMac(ethernet.destination), "33:33:00:00:00:16");
  IpView ip;
  ASSERT_EQ(ParseIpv6(ethernet.payload, ip), FrameResult::kTaken);
  EXPECT_EQ(ip.protocol, kIpProtocolIcmpv6);
  EXPECT_EQ(ip.hop_limit, 1);
  EXPECT_EQ(ip.payload.size(), 28u);
  EXPECT_EQ(Icmpv6Checksum(ip.source, ip.destination, ip.payload), 0);
}

}  // namespace
}  // namespace uroce::nic
