// SPDX-License-Identifier: Apache-2.0
#include "pipeline/fabric/frame.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::fabric {
namespace {

/// An Ethernet header, with a tag where `tci` is given, and `packet`.
std::vector<uint8_t> FrameOf(uint16_t ether_type, std::vector<uint8_t> packet, int tci = -1) {
  std::vector<uint8_t> frame = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8};
  const auto add = [&](int value) {
    frame.push_back(static_cast<uint8_t>(value >> 8));
    frame.push_back(static_cast<uint8_t>(value));
  };
  if (tci >= 0) {
    add(0x8100);
    add(tci);
  }
  add(ether_type);
  frame.insert(frame.end(), packet.begin(), packet.end());
  return frame;
}

// RFC 1071's sum over the header is 0xffff with its checksum in.
std::vector<uint8_t> Ipv4Packet(uint8_t traffic_class, uint16_t source_port = 0xc001,
                                uint16_t fragment = 0) {
  return {0x45,
          traffic_class,
          0,
          48,
          0,
          1,
          static_cast<uint8_t>(fragment >> 8),
          static_cast<uint8_t>(fragment),
          64,
          17,
          0x12,
          0x34,
          10,
          0,
          0,
          1,
          10,
          0,
          0,
          2,
          static_cast<uint8_t>(source_port >> 8),
          static_cast<uint8_t>(source_port),
          0x12,
          0xb7,
          0,
          28,
          0,
          0,
          1,
          2,
          3,
          4};
}

std::vector<uint8_t> Ipv6Packet(uint8_t traffic_class, uint8_t last = 2) {
  std::vector<uint8_t> packet(48);
  packet[0] = static_cast<uint8_t>(0x60 | traffic_class >> 4);
  packet[1] = static_cast<uint8_t>(traffic_class << 4 | 0x5);  // The flow label begins here.
  packet[6] = 17;
  packet[39] = last;
  packet[40] = 0xc0;
  return packet;
}

uint32_t HeaderSum(const std::vector<uint8_t>& frame, size_t offset) {
  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) sum += frame[offset + i] << 8 | frame[offset + i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST(FrameHeadersTest, EcnAndPriorityAreThoseOfTheTrafficClass) {
  for (const int dscp : {0, 26, 47, 48, 63}) {
    for (const int ecn : {0, 1, 2, 3}) {
      const auto traffic_class = static_cast<uint8_t>(dscp << 2 | ecn);
      for (const auto& frame :
           {FrameOf(0x800, Ipv4Packet(traffic_class)), FrameOf(0x86dd, Ipv6Packet(traffic_class)),
            FrameOf(0x800, Ipv4Packet(traffic_class), 100)}) {
        const FrameHeaders headers = ReadHeaders(frame);
        EXPECT_EQ(headers.is_ecn_capable, ecn != 0) << dscp;
        EXPECT_EQ(headers.is_control, dscp >= 48) << dscp;
        EXPECT_EQ(headers.destination, (Mac{2, 0, 0, 0, 0, 9}));
      }
    }
  }
}

TEST(FrameHeadersTest, TagSaysThePriorityOfWhatIsNoIp) {
  EXPECT_FALSE(ReadHeaders(FrameOf(0x806, std::vector<uint8_t>(28))).is_control);
  EXPECT_FALSE(ReadHeaders(FrameOf(0x806, std::vector<uint8_t>(28), 5 << 13)).is_control);
  EXPECT_TRUE(ReadHeaders(FrameOf(0x806, std::vector<uint8_t>(28), 6 << 13)).is_control);
}

TEST(FrameHeadersTest, FlowsDifferByPortsAndAddresses) {
  const auto hash = [](const std::vector<uint8_t>& frame) { return ReadHeaders(frame).flow_hash; };
  const auto frame = FrameOf(0x800, Ipv4Packet(0));
  EXPECT_EQ(hash(frame), hash(FrameOf(0x800, Ipv4Packet(3))));
  EXPECT_EQ(hash(frame), hash(FrameOf(0x800, Ipv4Packet(0), 7)));
  EXPECT_NE(hash(frame), hash(FrameOf(0x800, Ipv4Packet(0, 0xc002))));
  EXPECT_NE(hash(FrameOf(0x86dd, Ipv6Packet(0))), hash(FrameOf(0x86dd, Ipv6Packet(0, 3))));
  // Fragments of a datagram have no ports but for the first.
  EXPECT_EQ(hash(FrameOf(0x800, Ipv4Packet(0, 0xc001, 0x2000))),
            hash(FrameOf(0x800, Ipv4Packet(0, 0x1234, 0x00b9))));
}

TEST(FrameHeadersTest, MarkKeepsTheHeaderChecksumRight) {
  for (const int tci : {-1, 100}) {
    auto frame = FrameOf(0x800, Ipv4Packet(0x6a), tci);
    const size_t offset = tci < 0 ? 14 : 18;
    ASSERT_TRUE(MarkCongestionExperienced(frame));
    EXPECT_EQ(frame[offset + 1], 0x6b);
    EXPECT_EQ(HeaderSum(frame, offset), 0xffffu);
  }
}

TEST(FrameHeadersTest, MarkOfIpv6ChangesNothingElse) {
  auto frame = FrameOf(0x86dd, Ipv6Packet(0x6a));
  ASSERT_TRUE(MarkCongestionExperienced(frame));
  EXPECT_EQ(frame, FrameOf(0x86dd, Ipv6Packet(0x6b)));
}

TEST(FrameHeadersTest, FramesOfAnyLengthAreReadWithinTheirBytes) {
  const auto whole = FrameOf(0x800, Ipv4Packet(0x6a), 100);
  for (size_t length = 0; length <= whole.size(); ++length) {
    std::vector<uint8_t> frame(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    ReadHeaders(frame);
    EXPECT_EQ(MarkCongestionExperienced(frame), length >= 38) << length;
  }
  auto lying = FrameOf(0x800, Ipv4Packet(0x6a));
  lying[14] = 0x4f;  // 60 bytes of header, which are not there.
  EXPECT_FALSE(MarkCongestionExperienced(lying));
  ReadHeaders(lying);
  lying[14] = 0x44;
  EXPECT_FALSE(MarkCongestionExperienced(lying));
}

}  // namespace
}  // namespace uroce::fabric
