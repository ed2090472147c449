// SPDX-License-Identifier: Apache-2.0
// Frames as encode makes them, and back through decode.
#include "pipeline/wire/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "pipeline/wire/packet.h"
#include "pipeline/wire/to_string.h"
#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

HeaderTemplateConfig Ipv4Path() {
  HeaderTemplateConfig config;
  config.source_mac = {2, 0, 0, 0, 0, 1};
  config.destination_mac = {2, 0, 0, 0, 0, 2};
  config.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  config.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  config.dest_qpn = Qpn(0x123456);
  return config;
}

HeaderTemplateConfig Ipv6Path() {
  HeaderTemplateConfig config = Ipv4Path();
  config.source.bytes = {0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 1};
  config.destination.bytes = {0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 2};
  return config;
}

TransportHeader RandomHeader(Opcode opcode, std::mt19937& random) {
  const auto word = [&random] { return uint64_t{random()} << 32 | random(); };
  return {.opcode = opcode,
          .solicited = random() % 2 == 0,
          .ack_request = random() % 2 == 0,
          .pkey = 0xffff,
          .dest_qpn = Qpn(0x123456),
          .psn = Psn(static_cast<uint32_t>(random())),
          .aeth = {.syndrome = static_cast<uint8_t>(random()),
                   .msn = static_cast<uint32_t>(random()) & 0xffffff},
          .immediate = static_cast<uint32_t>(random()),
          .invalidate_rkey = Rkey(static_cast<uint32_t>(random())),
          .reth = {.va = word(),
                   .rkey = Rkey(static_cast<uint32_t>(random())),
                   .length_bytes = static_cast<uint32_t>(random())},
          .atomic = {.va = word(),
                     .rkey = Rkey(static_cast<uint32_t>(random())),
                     .swap_add = word(),
                     .compare = word()},
          .atomic_original = word(),
          .deth = {.qkey = static_cast<uint32_t>(random()),
                   .source_qpn = Qpn(static_cast<uint32_t>(random()))},
          .xrc_srqn = static_cast<uint32_t>(random()) & 0xffffff};
}

/// Compares what the opcode carries.
void ExpectEqual(const TransportHeader& a, const TransportHeader& b) {
  using I = OpcodeInfo;
  const OpcodeInfo& info = InfoOf(a.opcode);
  ASSERT_EQ(a.opcode, b.opcode);
  EXPECT_EQ(a.solicited, b.solicited);
  EXPECT_EQ(a.ack_request, b.ack_request);
  EXPECT_EQ(a.pkey, b.pkey);
  EXPECT_EQ(a.dest_qpn, b.dest_qpn);
  EXPECT_EQ(a.psn, b.psn);
  if (info.Has(I::kAeth)) {
    EXPECT_EQ(a.aeth.syndrome, b.aeth.syndrome);
    EXPECT_EQ(a.aeth.msn, b.aeth.msn);
  }
  if (info.Has(I::kImmDt)) {
    EXPECT_EQ(a.immediate, b.immediate);
  }
  if (info.Has(I::kIeth)) {
    EXPECT_EQ(a.invalidate_rkey, b.invalidate_rkey);
  }
  if (info.Has(I::kReth)) {
    EXPECT_EQ(a.reth.va, b.reth.va);
    EXPECT_EQ(a.reth.rkey, b.reth.rkey);
    EXPECT_EQ(a.reth.length_bytes, b.reth.length_bytes);
  }
  if (info.Has(I::kAtomicEth)) {
    EXPECT_EQ(a.atomic.va, b.atomic.va);
    EXPECT_EQ(a.atomic.rkey, b.atomic.rkey);
    EXPECT_EQ(a.atomic.swap_add, b.atomic.swap_add);
    EXPECT_EQ(a.atomic.compare, b.atomic.compare);
  }
  if (info.Has(I::kAtomicAckEth)) {
    EXPECT_EQ(a.atomic_original, b.atomic_original);
  }
  if (info.Has(I::kDeth)) {
    EXPECT_EQ(a.deth.qkey, b.deth.qkey);
    EXPECT_EQ(a.deth.source_qpn, b.deth.source_qpn);
  }
  if (info.Has(I::kXrceth)) {
    EXPECT_EQ(a.xrc_srqn, b.xrc_srqn);
  }
}

/// Lengths that the opcode allows.
std::vector<size_t> PayloadLengths(const OpcodeInfo& info) {
  if (!info.Has(OpcodeInfo::kPayload)) return {0};
  if (info.Has(OpcodeInfo::kFullPayload)) return {256, 1024, 4096};
  const bool ends_longer = info.Has(OpcodeInfo::kLast) && !info.Has(OpcodeInfo::kFirst);
  if (ends_longer) return {1, 2, 3, 4, 63, 1000, 4096};
  return {0, 1, 2, 3, 4, 5, 64, 999, 4096};
}

class EncodeTest : public testing::TestWithParam<int> {};

TEST_P(EncodeTest, EveryOpcodeComesBackFromDecodeWithARightIcrc) {
  std::mt19937 random(5);
  HeaderTemplateConfig config = GetParam() % 2 == 0 ? Ipv4Path() : Ipv6Path();
  config.vlan_tci = GetParam() < 2 ? 0 : 0xa123;
  for (int value = 0; value < 256; ++value) {
    const auto opcode = static_cast<Opcode>(value);
    if (!InfoOf(opcode).Has(OpcodeInfo::kKnown)) continue;
    for (const size_t length : PayloadLengths(InfoOf(opcode))) {
      std::vector<uint8_t> payload(length);
      for (uint8_t& byte : payload) byte = static_cast<uint8_t>(random());
      const TransportHeader header = RandomHeader(opcode, random);
      const auto identification = static_cast<uint16_t>(random());
      const std::vector<uint8_t> frame = EncodeFrame(config, header, payload, identification);
      Packet packet;
      FrameView view;
      ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk) << OpcodeName(opcode);
      EXPECT_TRUE(IcrcIsRight(frame, view)) << OpcodeName(opcode) << " " << length;
      ExpectEqual(header, packet.header);
      EXPECT_TRUE(
          std::equal(payload.begin(), payload.end(), packet.payload.begin(), packet.payload.end()));
      EXPECT_EQ(packet.source, config.source);
      EXPECT_EQ(packet.destination, config.destination);
      EXPECT_EQ(view.destination, config.destination_mac);
      EXPECT_EQ(view.vlan_tci, config.vlan_tci);
      EXPECT_EQ(frame, Reencode(frame, packet, view));
    }
  }
}

std::string PathName(const testing::TestParamInfo<int>& path) {
  const char* const names[] = {"Ipv4", "Ipv6", "Ipv4Tagged", "Ipv6Tagged"};
  return names[path.param];
}

INSTANTIATE_TEST_SUITE_P(Paths, EncodeTest, testing::Values(0, 1, 2, 3), PathName);

TEST(EncodeRulesTest, Ipv4HeaderFollowsTheTransmitRules) {
  HeaderTemplateConfig config = Ipv4Path();
  config.traffic_class = 0x6a;
  config.hop_limit = 7;
  config.udp_source_port = 0xc123;
  const std::vector<uint8_t> payload(5);
  const auto frame = EncodeFrame(config, {.opcode = Opcode::kSendOnly}, payload, 0xbeef);
  const std::vector<uint8_t> expected = {0x45, 0x6a, 0, 20 + 8 + 12 + 8 + 4, 0xbe, 0xef, 0x40,
                                         0,    7,    17};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frame.begin() + 14));
  const std::vector<uint8_t> udp = {0xc1, 0x23, 0x12, 0xb7, 0, 8 + 12 + 8 + 4, 0, 0};
  EXPECT_TRUE(std::equal(udp.begin(), udp.end(), frame.begin() + 34));
  EXPECT_EQ(frame.size(), 14u + 20 + 8 + 12 + 8 + 4);
  EXPECT_EQ(frame[43] >> 4 & 3, 3);  // Pad count.
  EXPECT_EQ(frame[43] & 0xf, 0);     // Version.
}

// A queue pair that knows one path has migrated (IBTA vol. 1, 17.2.8).
TEST(EncodeRulesTest, EveryPacketSaysMigrated) {
  for (int value = 0; value < 256; ++value) {
    const auto opcode = static_cast<Opcode>(value);
    if (!InfoOf(opcode).Has(OpcodeInfo::kKnown)) continue;
    for (const bool solicited : {false, true}) {
      const auto frame = EncodeFrame(Ipv4Path(), {.opcode = opcode, .solicited = solicited}, {}, 0);
      EXPECT_EQ(frame[43], solicited ? 0xc0 : 0x40) << OpcodeName(opcode);
    }
  }
}

// As Linux's software RoCE has it: what captures of it are made again with.
TEST(EncodeRulesTest, APathThatHasNotMigratedSaysSo) {
  HeaderTemplateConfig config = Ipv4Path();
  config.is_migrated = false;
  EXPECT_EQ(EncodeFrame(config, {.opcode = Opcode::kAcknowledge}, {}, 0)[43], 0);
}

TEST(EncodeRulesTest, Ipv4ChecksumIsRightForEveryIdentification) {
  for (uint32_t identification = 0; identification <= 0xffff; identification += 0x101) {
    const auto frame = EncodeFrame(Ipv4Path(), {.opcode = Opcode::kAcknowledge}, {},
                                   static_cast<uint16_t>(identification));
    uint32_t sum = 0;
    for (size_t i = 14; i < 34; i += 2) sum += static_cast<uint32_t>(frame[i] << 8 | frame[i + 1]);
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    ASSERT_EQ(sum, 0xffffu) << identification;
  }
}

TEST(EncodeRulesTest, Ipv6HeaderFollowsTheTransmitRules) {
  HeaderTemplateConfig config = Ipv6Path();
  config.traffic_class = 0x6a;
  config.flow_label = 0xabcde;
  config.hop_limit = 9;
  const auto frame = EncodeFrame(config, {.opcode = Opcode::kAcknowledge}, {}, 0);
  const std::vector<uint8_t> expected = {0x66, 0xaa, 0xbc, 0xde, 0, 8 + 12 + 4 + 4, 17, 9};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frame.begin() + 14));
}

TEST(EncodeRulesTest, PkeyAndDestinationAreThoseOfThePath) {
  HeaderTemplateConfig config = Ipv4Path();
  config.pkey = 0x8123;
  const TransportHeader header = {.opcode = Opcode::kSendOnly, .dest_qpn = Qpn(1)};
  const auto frame = EncodeFrame(config, header, {}, 0);
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  EXPECT_EQ(packet.header.dest_qpn, Qpn(0x123456));
  EXPECT_EQ(packet.header.pkey, 0x8123);
}

TEST(EncodeRulesTest, TheLongestHeadersFitTheirBound) {
  HeaderTemplateConfig config = Ipv6Path();
  config.vlan_tci = 1;
  const HeaderTemplate path(config);
  uint8_t out[kMaxHeaderBytes];
  for (int value = 0; value < 256; ++value) {
    const auto opcode = static_cast<Opcode>(value);
    if (!InfoOf(opcode).Has(OpcodeInfo::kKnown)) continue;
    EXPECT_LE(EncodeHeaders(path, {.opcode = opcode}, 0, 0, out).length_bytes, kMaxHeaderBytes);
  }
}

TEST(EncodeRulesTest, WithoutCrcTheHeadersAreTheSame) {
  for (const HeaderTemplateConfig& config : {Ipv4Path(), Ipv6Path()}) {
    const HeaderTemplate path(config);
    const TransportHeader header = {.opcode = Opcode::kWriteFirst, .psn = Psn(5)};
    uint8_t with[kMaxHeaderBytes] = {}, without[kMaxHeaderBytes] = {};
    const EncodedHeaders all = EncodeHeaders(path, header, 1001, 7, with);
    const EncodedHeaders some = EncodeHeaders(path, header, 1001, 7, without, HeaderCrc::kLeftOut);
    EXPECT_EQ(some.length_bytes, all.length_bytes);
    EXPECT_TRUE(std::equal(with, with + all.length_bytes, without));
    EXPECT_EQ(some.crc_state, 0u);
    EXPECT_EQ(CrcOfHeaders(path, without, some.length_bytes), all.crc_state);
  }
}

// Packets of a message from a base on: PSN and identification rise, and may wrap.
TEST(HeaderRunTest, HeadersAndRegistersAreThoseOfEachPacket) {
  std::mt19937 random(11);
  for (const HeaderTemplateConfig& config : {Ipv4Path(), Ipv6Path()}) {
    const HeaderTemplate path(config);
    for (const Opcode opcode :
         {Opcode::kWriteMiddle, Opcode::kSendMiddle, Opcode::kReadResponseMiddle,
          OpcodeOf(Service::kXrc, Opcode::kWriteMiddle), Opcode::kWriteOnly}) {
      for (int round = 0; round < 50; ++round) {
        TransportHeader header = RandomHeader(opcode, random);
        if (round % 2 == 0) header.psn = Psn(0xffffff - static_cast<uint32_t>(random()) % 60);
        auto identification =
            static_cast<uint16_t>(round % 3 == 0 ? 0xffff - random() % 60 : random());
        std::array<uint8_t, kMaxHeaderBytes> headers{}, expected{};
        const size_t length =
            EncodeHeaders(path, header, 1024, identification, headers.data()).length_bytes;
        HeaderRun run(path.ip_offset(), path.bth_offset(), path.is_ipv6(),
                      {headers.data(), length});
        for (int i = 0; i < 200; ++i) {
          header.psn = header.psn + 1;
          header.ack_request = random() % 4 == 0;
          ++identification;
          const EncodedHeaders encoded =
              EncodeHeaders(path, header, 1024, identification, expected.data());
          ASSERT_EQ(run.Next(header.psn, header.ack_request, identification), encoded.crc_state);
          const size_t bth = path.bth_offset();
          ASSERT_TRUE(
              std::equal(headers.begin() + bth, headers.begin() + length, expected.begin() + bth));
        }
      }
    }
  }
}

TEST(EncodeRulesTest, AnEmptyTrailerHasTheLengthOfOneWithAnIcrc) {
  for (uint32_t payload = 0; payload < 4; ++payload) {
    uint8_t with[kMaxTrailerBytes], empty[kMaxTrailerBytes];
    std::ranges::fill(empty, uint8_t{0xff});
    const size_t bytes = WriteTrailer(with, payload, 0x1234);
    EXPECT_EQ(WriteEmptyTrailer(empty, payload), bytes);
    EXPECT_EQ(TrailerBytes(payload), bytes);
    EXPECT_TRUE(std::all_of(empty, empty + bytes, [](uint8_t byte) { return byte == 0; }));
  }
}

uint16_t PortOf(const HeaderTemplateConfig& config, Qpn source, Qpn destination) {
  const auto frame = EncodeFrame(
      config,
      {.opcode = Opcode::kUdSendOnly, .dest_qpn = destination, .deth = {.source_qpn = source}}, {},
      0);
  Packet packet;
  FrameView view;
  EXPECT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  EXPECT_TRUE(IcrcIsRight(frame, view));
  const size_t udp = view.bth_offset - 8u;
  return static_cast<uint16_t>(frame[udp] << 8 | frame[udp + 1]);
}

// Networks spread flows by their ports and keep the packets of each in order: the port must be that
// of the two queue pairs, whichever address handle a datagram takes.
TEST(EncodeRulesTest, DatagramsHaveThePortOfTheirQueuePairs) {
  std::mt19937 random(7);
  for (HeaderTemplateConfig config : {Ipv4Path(), Ipv6Path()}) {
    config.udp_source_port = kPortOfEachDatagram;
    std::set<uint16_t> ports;
    for (int flow = 0; flow < 100; ++flow) {
      const Qpn source(static_cast<uint32_t>(random()) & 0xffffff);
      const Qpn destination(static_cast<uint32_t>(random()) & 0xffffff);
      const uint16_t port = PortOf(config, source, destination);
      EXPECT_GE(port, 0xc000);
      EXPECT_EQ(port, UdpSourcePort(0, source, destination));
      EXPECT_EQ(port, PortOf(config, source, destination)) << "one flow, one port";
      ports.insert(port);
    }
    EXPECT_GT(ports.size(), 90u);
  }
}

TEST(EncodeRulesTest, AFlowLabelGivesAllDatagramsOfAPathOnePort) {
  HeaderTemplateConfig config = Ipv6Path();
  config.udp_source_port = UdpSourcePort(0xb5001, Qpn(), Qpn());
  for (uint32_t number = 2; number < 50; ++number) {
    EXPECT_EQ(PortOf(config, Qpn(number), Qpn(number * 7)), 53292);
  }
}

// Source: docs/protocol/wire-format.md, section 1.1; the values were seen in captures.
TEST(UdpSourcePortTest, FollowsTheConventionOfLinux) {
  EXPECT_EQ(UdpSourcePort(0xb5001, Qpn(0x11), Qpn(0x22)), 53292);
  EXPECT_EQ(UdpSourcePort(0, Qpn(0x15), Qpn(0x15)), 49593);
}

TEST(UdpSourcePortTest, IsTheSameInBothDirectionsAndInTheDynamicRange) {
  std::mt19937 random(6);
  for (int round = 0; round < 1000; ++round) {
    const Qpn a(static_cast<uint32_t>(random()));
    const Qpn b(static_cast<uint32_t>(random()));
    EXPECT_EQ(UdpSourcePort(0, a, b), UdpSourcePort(0, b, a));
    EXPECT_GE(UdpSourcePort(static_cast<uint32_t>(random()), a, b), 0xc000);
  }
}

}  // namespace
}  // namespace uroce::wire
