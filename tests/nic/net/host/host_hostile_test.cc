// SPDX-License-Identifier: Apache-2.0
// Frames that break the protocol: the stack counts them, answers nothing and remembers nothing.
#include <gtest/gtest.h>

#include <random>

#include "nic/net/host/host.h"
#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

class HostHostileTest : public testing::Test {
 protected:
  HostHostileTest() {
    host.OnLink(true, now);
    for (int i = 0; i < 100; ++i) Pass(kMilli * 100);
    Quiet();
  }
  void Pass(Nanos duration) {
    now = now + duration;
    host.OnDeadline(now);
  }
  /// Frames that the host sent since last asked.
  size_t Quiet() {
    size_t frames = 0;
    while (host.PollFrame()) ++frames;
    while (host.PollEvent()) {
    }
    return frames;
  }
  FrameResult Give(const Frame& frame) { return host.OnFrame(frame, now); }

  static ArpPacket Question() {
    return {.is_request = true,
            .sender_mac = kMacC,
            .sender = G("10.0.0.9"),
            .target_mac = {},
            .target = G("10.0.0.1")};
  }
  static Frame Arp(const ArpPacket& packet) { return MakeArp(packet, {kMacC, kBroadcastMac, 0}); }
  static Frame Solicitation() {
    const Gid group = SolicitedNodeGroup(G("fd00::1"));
    return MakeSolicitation({G("fd00::9"), group, G("fd00::1"), kMacC},
                            {kMacC, MulticastMac(group), 0});
  }
  static Frame Ping() {
    Frame message(8, 0);
    message[0] = kIcmpEchoRequest;
    message[2] = 0xf7;
    message[3] = 0xff;
    FrameWriter writer({kMacC, kMacA, 0}, wire::kEtherTypeIpv4);
    writer.AddIpv4(G("10.0.0.9"), G("10.0.0.1"), kIpProtocolIcmp, message.size());
    writer.AddBytes(message);
    return writer.Finish();
  }

  Nanos now{1'000'000'000};
  Host host{{kMacA, {Addr("10.0.0.1/24"), Addr("fd00::1/64")}, {}}};
};

TEST_F(HostHostileTest, TheFramesOfTheseTestsAreRightBeforeTheyAreSpoilt) {
  EXPECT_EQ(Give(Arp(Question())), FrameResult::kTaken);
  EXPECT_EQ(Give(Solicitation()), FrameResult::kTaken);
  EXPECT_EQ(Give(Ping()), FrameResult::kTaken);
  EXPECT_EQ(Quiet(), 3u);
}

TEST_F(HostHostileTest, NoPrefixOfAFrameIsAnswered) {
  for (const Frame& whole : {Solicitation(), Ping()}) {
    const size_t used = whole == Ping() ? 14 + 28 : whole.size();
    for (size_t length = 0; length < used; ++length) {
      EXPECT_NE(Give(Frame(whole.begin(), whole.begin() + length)), FrameResult::kTaken) << length;
    }
  }
  const Frame arp = Arp(Question());
  for (size_t length = 0; length < 14 + 28; ++length) {
    EXPECT_NE(Give(Frame(arp.begin(), arp.begin() + length)), FrameResult::kTaken) << length;
  }
  EXPECT_EQ(Quiet(), 0u);
}

TEST_F(HostHostileTest, ABrokenBitIsNotAnswered) {
  for (const Frame& whole : {Solicitation(), Ping()}) {
    // Of IPv4 the header and of both ICMPs all is guarded; the MACs are another matter.
    const size_t begin = whole == Ping() ? 14 : 14 + 8;
    const size_t end = whole == Ping() ? 14 + 28 : whole.size();
    for (size_t bit = begin * 8; bit < end * 8; ++bit) {
      Frame broken = whole;
      broken[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      EXPECT_NE(Give(broken), FrameResult::kTaken) << bit;
    }
  }
  EXPECT_EQ(Quiet(), 0u);
}

TEST_F(HostHostileTest, FragmentsAreCountedAsSuch) {
  Frame ping = Ping();
  ping[14 + 6] = 0x20;  // More fragments instead of "do not fragment": the sum falls by 0x2000.
  ping[14 + 10] = static_cast<uint8_t>(ping[14 + 10] + 0x20);
  EXPECT_EQ(Give(ping), FrameResult::kFragment);
  Frame solicitation = Solicitation();
  solicitation[14 + 6] = 44;
  EXPECT_EQ(Give(solicitation), FrameResult::kFragment);
}

TEST_F(HostHostileTest, FramesForOthersAndOurOwnAreNotTaken) {
  Frame frame = Ping();
  frame[5] = 0x77;
  EXPECT_EQ(Give(frame), FrameResult::kNotForUs);
  frame = Arp(Question());
  std::copy(kMacA.begin(), kMacA.end(), frame.begin() + 6);
  EXPECT_EQ(Give(frame), FrameResult::kNotForUs);
  EXPECT_EQ(Quiet(), 0u);
}

TEST_F(HostHostileTest, SendersThatCannotBeAreRefused) {
  ArpPacket packet = Question();
  packet.sender_mac = kBroadcastMac;
  EXPECT_EQ(Give(Arp(packet)), FrameResult::kBadAddress);
  packet = Question();
  packet.sender = Ipv4Gid(0xe0000001);
  EXPECT_EQ(Give(Arp(packet)), FrameResult::kBadAddress);
  Frame frame = Arp(Question());
  frame[6] |= 1;
  EXPECT_EQ(Give(frame), FrameResult::kBadAddress);
  EXPECT_EQ(Quiet(), 0u);
}

TEST_F(HostHostileTest, ArpOfOtherHardwareOrProtocolIsRefused) {
  for (const size_t field : {15, 16, 18, 19, 21}) {  // Low or high bytes of the fixed fields.
    Frame frame = Arp(Question());
    frame[field] ^= 0x40;
    EXPECT_EQ(Give(frame), FrameResult::kBadHeader) << field;
  }
}

TEST_F(HostHostileTest, AFloodOfArpLeavesNoTraceAndOneAnswerEach) {
  ArpPacket packet = Question();
  for (uint32_t i = 0; i < 100'000; ++i) {
    packet.sender = Ipv4Gid(0x0a000100u + i);
    packet.target = G(i % 100 == 0 ? "10.0.0.1" : "10.0.0.200");
    Give(Arp(packet));
  }
  EXPECT_EQ(Quiet(), 1000u);
  EXPECT_EQ(host.NextDeadline(), kNever);
}

TEST_F(HostHostileTest, OurAddressIsNoNeighbour) {
  ArpPacket packet = Question();
  packet.sender = G("10.0.0.1");
  Give(Arp(packet));
  Quiet();
  const NeighbourAdvertisement lie{.source = G("fd00::9"),
                                   .destination = G("fd00::1"),
                                   .target = G("fd00::9"),
                                   .solicited = true,
                                   .overrides = true,
                                   .target_mac = kMacA};
  EXPECT_EQ(Give(MakeAdvertisement(lie, {kMacC, kMacA, 0})), FrameResult::kBadAddress);
}

TEST_F(HostHostileTest, RandomBytesBehindEachHeaderDoNoHarm) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    Frame frame = i % 3 == 0 ? Arp(Question()) : i % 3 == 1 ? Ping() : Solicitation();
    frame.resize(random() % (frame.size() + 40));
    for (int change = 0; change < 4 && !frame.empty(); ++change) {
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    }
    Give(frame);
    Quiet();
  }
  uint64_t counted = 0;
  for (const uint64_t count : host.frame_counts()) counted += count;
  EXPECT_EQ(counted, 200'000u);
}

}  // namespace
}  // namespace uroce::nic
