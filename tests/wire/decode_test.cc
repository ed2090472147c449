// SPDX-License-Identifier: Apache-2.0
// What decode refuses, each with its reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/to_string.h"
#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

using Frame = std::vector<uint8_t>;

HeaderTemplateConfig Path(bool ipv6) {
  HeaderTemplateConfig config;
  config.destination_mac = {2, 0, 0, 0, 0, 2};
  if (ipv6) {
    config.source.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    config.destination.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  } else {
    config.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    config.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  }
  return config;
}

Frame Make(Opcode opcode, size_t payload_bytes, bool ipv6 = false) {
  const std::vector<uint8_t> payload(payload_bytes, 0x5a);
  return EncodeFrame(Path(ipv6), {.opcode = opcode, .aeth = {.syndrome = 0x1f}}, payload, 1);
}

DecodeResult ResultOf(const Frame& frame) {
  // In its own block size, so that AddressSanitizer sees any byte read behind it.
  const Frame exact(frame);
  Packet packet;
  FrameView view;
  return Decode(std::span(exact.data(), exact.size()), packet, view);
}

/// Puts the IPv4 checksum right after a change to the header.
void FixChecksum(Frame& frame) {
  frame[24] = frame[25] = 0;
  uint32_t sum = 0;
  for (size_t i = 14; i < 34; i += 2) sum += static_cast<uint32_t>(frame[i] << 8 | frame[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  frame[24] = static_cast<uint8_t>(~sum >> 8);
  frame[25] = static_cast<uint8_t>(~sum);
}

/// Cuts or adds bytes at the end and makes all lengths fit.
void Resize(Frame& frame, size_t bytes) {
  frame.resize(bytes);
  const size_t ip_bytes = bytes - 14;
  frame[16] = static_cast<uint8_t>(ip_bytes >> 8);
  frame[17] = static_cast<uint8_t>(ip_bytes);
  frame[38] = static_cast<uint8_t>((ip_bytes - 20) >> 8);
  frame[39] = static_cast<uint8_t>(ip_bytes - 20);
  FixChecksum(frame);
}

struct Refusal {
  const char* name;
  DecodeResult result;
  Opcode opcode;
  size_t payload_bytes;
  bool ipv6;
  std::function<void(Frame&)> change;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class DecodeRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(DecodeRefusalTest, IsRefusedForItsReason) {
  const Refusal& refusal = GetParam();
  Frame frame = Make(refusal.opcode, refusal.payload_bytes, refusal.ipv6);
  if (refusal.ipv6 || refusal.opcode == Opcode::kSendOnly) {
    ASSERT_EQ(ResultOf(frame), DecodeResult::kOk);
  }
  refusal.change(frame);
  EXPECT_EQ(ToString(ResultOf(frame)), ToString(refusal.result));
}

constexpr auto kNothing = [](Frame&) {};

INSTANTIATE_TEST_SUITE_P(
    Rules, DecodeRefusalTest,
    testing::Values(Refusal{"Empty", DecodeResult::kNotIp, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f.clear(); }},
                    Refusal{"Arp", DecodeResult::kNotIp, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[13] = 6; }},
                    Refusal{"RoceV1", DecodeResult::kNotIp, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[12] = 0x89, f[13] = 0x15; }},
                    Refusal{"CutTag", DecodeResult::kNotIp, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[12] = 0x81, f.resize(16); }},
                    Refusal{"DoubleTag", DecodeResult::kNotIp, Opcode::kSendOnly, 4, false,
                            [](Frame& f) {
                              const Frame tags = {0x81, 0, 0, 1, 0x81, 0, 0, 2};
                              f.insert(f.begin() + 12, tags.begin(), tags.end());
                            }},
                    Refusal{"Tcp", DecodeResult::kNotUdp, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[23] = 6, FixChecksum(f); }},
                    Refusal{"Ipv6Extension", DecodeResult::kNotUdp, Opcode::kSendOnly, 4, true,
                            [](Frame& f) { f[20] = 0; }},
                    Refusal{"OtherPort", DecodeResult::kNotRocePort, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[37] = 0xb8; }},
                    Refusal{"Ipv4WithVersion6", DecodeResult::kBadIpVersion, Opcode::kSendOnly, 4,
                            false, [](Frame& f) { f[14] = 0x65; }},
                    Refusal{"Ipv6WithVersion4", DecodeResult::kBadIpVersion, Opcode::kSendOnly, 4,
                            true, [](Frame& f) { f[14] = 0x45; }},
                    Refusal{"Options", DecodeResult::kIpOptions, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[14] = 0x46, FixChecksum(f); }},
                    Refusal{"ShortIhl", DecodeResult::kIpOptions, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[14] = 0x44, FixChecksum(f); }},
                    Refusal{"FirstFragment", DecodeResult::kFragment, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[20] = 0x20, FixChecksum(f); }},
                    Refusal{"LaterFragment", DecodeResult::kFragment, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[21] = 1, FixChecksum(f); }},
                    Refusal{"Ipv6PosingAsIpv4", DecodeResult::kMappedAddress, Opcode::kSendOnly, 4,
                            true,
                            [](Frame& f) {
                              const Frame mapped = {0, 0, 0,    0,    0,  0, 0, 0,
                                                    0, 0, 0xff, 0xff, 10, 0, 0, 1};
                              std::copy(mapped.begin(), mapped.end(), f.begin() + 22);
                            }},
                    Refusal{"IpChecksum", DecodeResult::kBadIpChecksum, Opcode::kSendOnly, 4, false,
                            [](Frame& f) { f[15] ^= 3; }},
                    Refusal{"FrameShorterThanIp", DecodeResult::kTruncated, Opcode::kSendOnly, 64,
                            false, [](Frame& f) { f.pop_back(); }},
                    Refusal{"FrameShorterThanIpv6", DecodeResult::kTruncated, Opcode::kSendOnly, 64,
                            true, [](Frame& f) { f.pop_back(); }},
                    Refusal{"UdpLongerThanIp", DecodeResult::kBadUdpLength, Opcode::kSendOnly, 64,
                            false, [](Frame& f) { f[39] = static_cast<uint8_t>(f[39] + 4); }},
                    Refusal{"UdpShorterThanIp", DecodeResult::kBadUdpLength, Opcode::kSendOnly, 64,
                            false, [](Frame& f) { f[39] = static_cast<uint8_t>(f[39] - 4); }},
                    Refusal{"UdpUnlikeIpv6", DecodeResult::kBadUdpLength, Opcode::kSendOnly, 64,
                            true, [](Frame& f) { f[19] = static_cast<uint8_t>(f[19] - 4); }},
                    Refusal{"NoRoomForIcrc", DecodeResult::kBadUdpLength, Opcode::kSendOnly, 4,
                            false, [](Frame& f) { Resize(f, 14 + 20 + 8 + 12 + 3); }},
                    Refusal{"HeaderVersion", DecodeResult::kBadBthVersion, Opcode::kSendOnly, 4,
                            false, [](Frame& f) { f[43] |= 1; }},
                    Refusal{"NoRoomForReth", DecodeResult::kBadPayloadLength, Opcode::kSendOnly, 8,
                            false, [](Frame& f) { f[42] = 0x0a; }},
                    Refusal{"AckWithPayload", DecodeResult::kBadPayloadLength, Opcode::kAcknowledge,
                            4, false, kNothing},
                    Refusal{"PadLongerThanBody", DecodeResult::kBadPad, Opcode::kSendOnly, 0, false,
                            [](Frame& f) { f[43] |= 0x10; }},
                    Refusal{"BodyNotWholeWords", DecodeResult::kBadPad, Opcode::kSendOnly, 8, false,
                            [](Frame& f) { Resize(f, f.size() - 1); }},
                    Refusal{"ReservedUcOpcode", DecodeResult::kUnknownOpcode, Opcode::kSendOnly, 4,
                            false, [](Frame& f) { f[42] = 0x2c; }},
                    Refusal{"ReliableDatagram", DecodeResult::kUnknownOpcode, Opcode::kSendOnly, 4,
                            false, [](Frame& f) { f[42] = 0x44; }},
                    Refusal{"VendorOpcode", DecodeResult::kUnknownOpcode, Opcode::kSendOnly, 4,
                            false, [](Frame& f) { f[42] = 0xff; }}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

// [4.1.6.decode] The responder answers these with a NAK, so they must reach it.
TEST(DecodeTest, LengthsThatOnlyMisfitTheirMessageAreLeftToTheTransport) {
  const std::pair<Opcode, size_t> kCases[] = {
      {Opcode::kSendLast, 0},    {Opcode::kWriteFirst, 0},           {Opcode::kSendFirst, 255},
      {Opcode::kReadRequest, 4}, {Opcode::kReadResponseMiddle, 253}, {Opcode::kFetchAdd, 8}};
  for (const auto& [opcode, payload_bytes] : kCases) {
    const Frame frame = Make(opcode, payload_bytes);
    Packet packet;
    FrameView view;
    EXPECT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
    EXPECT_EQ(packet.payload.size(), payload_bytes);
  }
}

// [4.1.3.decode] docs/protocol/wire-format.md, section 5: a NAK is due for them.
TEST(DecodeTest, ReservedOpcodesOfReliableServicesAreLeftToTheTransport) {
  for (const uint8_t opcode : std::array<uint8_t, 4>{0x15, 0x18, 0x1f, 0xb5}) {
    Frame frame = Make(Opcode::kSendOnly, 4);
    frame[42] = opcode;
    Packet packet;
    FrameView view;
    EXPECT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
    EXPECT_EQ(packet.header.opcode, static_cast<Opcode>(opcode));
    EXPECT_EQ(packet.payload.size(), 4u);
  }
}

TEST(DecodeTest, AFrameCutAnywhereIsRefusedAndNeverReadBehind) {
  for (const bool ipv6 : {false, true}) {
    for (const Opcode opcode : {Opcode::kSendOnly, Opcode::kReadRequest, Opcode::kCompareSwap,
                                Opcode::kAtomicAcknowledge, Opcode::kUdSendOnlyWithImm}) {
      const size_t payload_bytes = InfoOf(opcode).Has(OpcodeInfo::kPayload) ? 9 : 0;
      const Frame frame = Make(opcode, payload_bytes, ipv6);
      ASSERT_EQ(ResultOf(frame), DecodeResult::kOk);
      for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
        const auto end = frame.begin() + static_cast<ptrdiff_t>(bytes);
        EXPECT_NE(ResultOf(Frame(frame.begin(), end)), DecodeResult::kOk) << bytes;
      }
    }
  }
}

// A packet of a superframe: what the headers before BTH say is known from the first packet.
TEST(DecodeTest, APacketOfASuperframeIsDecodedLikeAFrame) {
  for (const bool ipv6 : {false, true}) {
    const Frame first = Make(Opcode::kWriteFirst, 1024, ipv6);
    Packet first_packet;
    FrameView first_view;
    ASSERT_EQ(Decode(first, first_packet, first_view), DecodeResult::kOk);
    for (int code = 0; code < 256; ++code) {
      for (const size_t payload : {0, 3, 64, 1024}) {
        Frame frame = Make(Opcode::kWriteMiddle, payload, ipv6);
        frame[first_view.bth_offset] = static_cast<uint8_t>(code);
        for (const size_t bytes : {frame.size(), frame.size() - 4, size_t{first_view.bth_offset}}) {
          const Frame cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(bytes));
          Frame whole = cut;
          if (ipv6) {
            whole[18] = static_cast<uint8_t>((bytes - 54) >> 8);
            whole[19] = static_cast<uint8_t>(bytes - 54);
          } else {
            whole[16] = static_cast<uint8_t>((bytes - 14) >> 8);
            whole[17] = static_cast<uint8_t>(bytes - 14);
            FixChecksum(whole);
          }
          const size_t udp_length = size_t{first_view.bth_offset} - 4;
          whole[udp_length] = static_cast<uint8_t>((bytes - first_view.bth_offset + 8) >> 8);
          whole[udp_length + 1] = static_cast<uint8_t>(bytes - first_view.bth_offset + 8);
          Packet expected;
          FrameView expected_view;
          const DecodeResult result = Decode(whole, expected, expected_view);
          Packet packet = first_packet;
          FrameView view = first_view;
          EXPECT_EQ(DecodeSegment(whole, packet, view), result) << code << " " << bytes;
          if (result != DecodeResult::kOk) continue;
          EXPECT_EQ(packet.header.opcode, expected.header.opcode);
          EXPECT_EQ(packet.header.psn, expected.header.psn);
          EXPECT_EQ(packet.payload.data(), expected.payload.data());
          EXPECT_EQ(packet.payload.size(), expected.payload.size());
          EXPECT_EQ(packet.source, expected.source);
          EXPECT_EQ(view.icrc_offset, expected_view.icrc_offset);
          EXPECT_EQ(view.bth_offset, expected_view.bth_offset);
        }
      }
    }
  }
}

TEST(DecodeTest, EveryByteOfEveryHeaderMayBeAnythingWithoutReadingBehind) {
  for (const bool ipv6 : {false, true}) {
    const Frame good = Make(Opcode::kWriteOnlyWithImm, 16, ipv6);
    for (size_t at = 0; at < good.size(); ++at) {
      Frame frame = good;
      for (int value = 0; value < 256; ++value) {
        frame[at] = static_cast<uint8_t>(value);
        ResultOf(frame);
      }
    }
  }
}

TEST(DecodeTest, EthernetPaddingIsNotPayload) {
  Frame frame = Make(Opcode::kSendOnly, 0);
  ASSERT_LT(frame.size(), 60u);
  frame.resize(60, 0xcc);
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  EXPECT_TRUE(packet.payload.empty());
  EXPECT_TRUE(IcrcIsRight(frame, view));
}

TEST(DecodeTest, CongestionIsEcnThreeAndNothingElse) {
  for (const bool ipv6 : {false, true}) {
    for (uint8_t ecn = 0; ecn < 4; ++ecn) {
      HeaderTemplateConfig config = Path(ipv6);
      config.traffic_class = static_cast<uint8_t>(0x68 | ecn);
      const Frame frame = EncodeFrame(config, {.opcode = Opcode::kSendOnly}, {}, 1);
      Packet packet;
      FrameView view;
      ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
      EXPECT_EQ(packet.congestion_experienced, ecn == 3) << ipv6 << int{ecn};
    }
  }
}

// Source: docs/protocol/wire-format.md, sections 1 and 2: receivers ignore these.
TEST(DecodeTest, FieldsThatReceiversIgnoreAreIgnored) {
  Frame frame = Make(Opcode::kSendOnly, 4);
  frame[43] ^= 0x40;                  // MigReq.
  frame[46] = 0xff;                   // FECN, BECN, reserved.
  frame[50] |= 0x7f;                  // Reserved beside AckReq.
  frame[34] = frame[35] = 0;          // UDP source port.
  frame[40] = frame[41] = 0x77;       // UDP checksum.
  frame[20] = 0, FixChecksum(frame);  // DF.
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  EXPECT_FALSE(packet.header.ack_request);
  EXPECT_FALSE(packet.header.solicited);
}

TEST(DecodeTest, ResultsFallIntoTheClassesThatAreCounted) {
  EXPECT_EQ(ClassOf(DecodeResult::kOk), DecodeClass::kOk);
  EXPECT_EQ(ClassOf(DecodeResult::kNotIp), DecodeClass::kNotRoce);
  EXPECT_EQ(ClassOf(DecodeResult::kNotRocePort), DecodeClass::kNotRoce);
  EXPECT_EQ(ClassOf(DecodeResult::kTruncated), DecodeClass::kMalformed);
  EXPECT_EQ(ClassOf(DecodeResult::kBadPayloadLength), DecodeClass::kMalformed);
  EXPECT_EQ(ClassOf(DecodeResult::kUnknownOpcode), DecodeClass::kUnknownOpcode);
}

// The area in front of received datagrams: docs/protocol/wire-format.md, section 3.1.

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
