// SPDX-License-Identifier: Apache-2.0
// The area in front of received datagrams: docs/protocol/wire-format.md, section 3.1.
#include "pipeline/wire/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

std::vector<uint8_t> DatagramOf(bool ipv6) {
  HeaderTemplateConfig config;
  config.vlan_tci = 5;
  config.source.bytes = {0xfd, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  config.destination.bytes = {0xfd, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  if (!ipv6) {
    config.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    config.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  }
  config.dest_qpn = Qpn(0x111111);
  const std::vector<uint8_t> payload(8, 0x5a);
  TransportHeader header{.opcode = Opcode::kUdSendOnly};
  header.dest_qpn = Qpn(0x123456);
  header.deth = {.qkey = 7, .source_qpn = Qpn(9)};
  return EncodeFrame(config, header, payload, 0x1234);
}

// [10.grh] The whole header, as it came.
TEST(GrhAreaTest, AnIpv6HeaderFillsTheArea) {
  const std::vector<uint8_t> frame = DatagramOf(true);
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  const auto area = GrhArea(frame, view);
  EXPECT_TRUE(std::equal(area.begin(), area.end(), frame.begin() + 18));
  EXPECT_EQ(area[0] >> 4, 6);
}

// [10.grh] Zeros, then the header with the checksum that programs tell it by.
TEST(GrhAreaTest, AnIpv4HeaderIsTheLastTwentyBytes) {
  const std::vector<uint8_t> frame = DatagramOf(false);
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  const auto area = GrhArea(frame, view);
  EXPECT_TRUE(std::all_of(area.begin(), area.begin() + 20, [](uint8_t byte) { return byte == 0; }));
  EXPECT_TRUE(std::equal(area.begin() + 20, area.end(), frame.begin() + 18));
}

// [10.send] A path serves many queue pairs: the datagram's own number is written.
TEST(GrhAreaTest, ADatagramCarriesItsOwnDestination) {
  for (const bool ipv6 : {false, true}) {
    const std::vector<uint8_t> frame = DatagramOf(ipv6);
    Packet packet;
    FrameView view;
    ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
    EXPECT_EQ(packet.header.dest_qpn, Qpn(0x123456));
    EXPECT_EQ(packet.header.deth.source_qpn, Qpn(9));
    EXPECT_TRUE(IcrcIsRight(frame, view));
  }
}

}  // namespace
}  // namespace uroce::wire
