// SPDX-License-Identifier: Apache-2.0
// The ICRC against packets that other implementations made (docs/protocol/wire-format.md,
// section 7.3).
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "tests/wire/packet_train.h"

namespace uroce::wire {
namespace {

struct Vector {
  const char* name;
  const char* hex;  ///< From the first IP byte to the ICRC.
};

constexpr Vector kVectors[] = {
    {"CnpOfConnectX4",
     "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000000000000"
     "000"
     "000000000000000082fd002a"},
    {"UcSendOnlyOfScapy",
     "45010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630818be2893"
     "5d9"
     "0e9a95505401be885e50000078f353f3"},
    {"Acknowledge",
     "45000030ebcb400040113aef0a0000020a000001d02c12b7001c00001100ffff0000001200ca82851f000001148ae"
     "229"},
    {"AcknowledgeIpv6",
     "60000000001c1140fd000000000000000000000000000002fd000000000000000000000000000001d9be12b7001c0"
     "000"
     "1100ffff0000001100dd07471f00000179b160b5"},
    {"AcknowledgeIpv6TrafficClass",
     "66800000001c1140fd000000000000000000000000000001fd000000000000000000000000000002f9c912b7001c0"
     "000"
     "1100ffff0000001300a4231e1f000002e643c78a"},
    {"SendOnlyIpv6",
     "6000000000281140fd000000000000000000000000000001fd000000000000000000000000000002d9be12b700280"
     "000"
     "0400ffff0000001180dd07470000556f937d2530000005d500000025acc1fc69"},
    {"SendOnlyWithImmediateAndPad",
     "4500003835e640004011f0cc0a0000010a000002c14412b7002400000530ffff0000001280000100a1b2c3d4aaaaa"
     "aaa"
     "aa00000037637039"},
    {"CompareSwap",
     "45000048362040004011f0820a0000010a000002c1b912b7003400001300ffff00000015800001000000562e0f1dd"
     "000"
     "0000060611121314151617180102030405060708ef43d735"},
    {"AtomicAcknowledge",
     "45000038386040004011ee520a0000020a000001c1b912b7002400001200ffff00000015000001001f00000100000"
     "000"
     "0000000064e0131f"},
    {"ReadRequest",
     "4500003c360540004011f0a90a0000010a000002c19012b7002800000c00ffff00000014800001000000562e0f1dc"
     "000"
     "00000564000008016a3175c8"},
    {"ReadResponseLastWithPad",
     "45000034385e40004011ee580a0000020a000001c19012b7002000000f30ffff00000014000001021f00000155000"
     "000"
     "e441c34a"},
    {"RnrNak",
     "45000030387f40004011ee3b0a0000020a000001c2a412b7001c00001100ffff0000001a000001002c00000026050"
     "2a1"},
    {"NakRemoteAccess",
     "4500003038d540004011ede50a0000020a000001c34912b7001c00001100ffff0000001d00000100620000006b6dc"
     "00d"},
    {"SendOnlyWithInvalidate",
     "45000040383b40004011ee6f0a0000010a000002c73912b7002c00001700ffff0000002b8000010108000127aaaaa"
     "aaa"
     "aaaaaaaaaaaaaaaaaaaaaaaa54f63447"},
};

/// The vector behind an Ethernet header.
std::vector<uint8_t> FrameOf(const Vector& vector) {
  std::vector<uint8_t> frame(12, 0x02);
  const std::string_view hex = vector.hex;
  const bool ipv6 = hex[0] == '6';
  frame.push_back(ipv6 ? 0x86 : 0x08);
  frame.push_back(ipv6 ? 0xdd : 0x00);
  for (size_t i = 0; i < hex.size(); i += 2) {
    frame.push_back(static_cast<uint8_t>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return frame;
}

bool IsRight(const std::vector<uint8_t>& frame) {
  Packet packet;
  FrameView view;
  EXPECT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  return IcrcIsRight(frame, view);
}

class IcrcVectorTest : public testing::TestWithParam<Vector> {};

TEST_P(IcrcVectorTest, IsRight) { EXPECT_TRUE(IsRight(FrameOf(GetParam()))); }

TEST_P(IcrcVectorTest, AnyFlippedBitOfTransportPayloadOrIcrcMakesItWrong) {
  std::vector<uint8_t> frame = FrameOf(GetParam());
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  for (size_t at = view.bth_offset; at < frame.size(); ++at) {
    const bool masked = at == view.bth_offset + 4u;
    for (int bit = 0; bit < 8; ++bit) {
      frame[at] ^= static_cast<uint8_t>(1 << bit);
      EXPECT_EQ(IcrcIsRight(frame, view), masked) << at << ":" << bit;
      frame[at] ^= static_cast<uint8_t>(1 << bit);
    }
  }
}

TEST_P(IcrcVectorTest, FieldsThatRoutersChangeAreNotCovered) {
  std::vector<uint8_t> frame = FrameOf(GetParam());
  Packet packet;
  FrameView view;
  ASSERT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  uint8_t* const ip = frame.data() + view.ip_offset;
  if (view.is_ipv6) {
    ip[0] = 0x6f;
    ip[1] = ip[2] = ip[3] = 0xa5;
    ip[7] = 1;
  } else {
    ip[1] = ip[8] = ip[10] = ip[11] = 0xa5;
  }
  ip[view.bth_offset - view.ip_offset - 1] = 0x77;
  EXPECT_TRUE(IcrcIsRight(frame, view));
  ip[view.is_ipv6 ? 6 : 9] ^= 1;
  EXPECT_FALSE(IcrcIsRight(frame, view));
}

INSTANTIATE_TEST_SUITE_P(Vectors, IcrcVectorTest, testing::ValuesIn(kVectors),
                         [](const auto& vector) { return std::string(vector.param.name); });

TEST(IcrcTest, SeedIsTheStateAfterTheBytesThatStandForTheLrh) {
  const std::vector<uint8_t> ones(8, 0xff);
  EXPECT_EQ(Crc32Update(0xffffffff, ones), kIcrcSeed);
}

TEST(IcrcTest, IsStoredLeastSignificantByteFirst) {
  std::array<uint8_t, 4> bytes{};
  StoreIcrc(bytes.data(), ~0x2a00fd82u);
  EXPECT_EQ(bytes, (std::array<uint8_t, 4>{0x82, 0xfd, 0x00, 0x2a}));
}

TEST(IcrcTest, EthernetPaddingIsNotCovered) {
  std::vector<uint8_t> frame = FrameOf(kVectors[2]);
  frame.insert(frame.end(), 6, 0x5a);
  EXPECT_TRUE(IsRight(frame));
}

// ICRCs under changes of a field: docs/protocol/wire-format.md, section 7.4.

using Frame = std::vector<uint8_t>;

uint16_t WordAt(const Frame& frame, size_t at) {
  return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
}

class IcrcChangeTest : public testing::TestWithParam<size_t> {
 protected:
  PacketTrain train_;
};

TEST_P(IcrcChangeTest, ARenumberedPacketHasTheIcrcOfItsNewFields) {
  for (const bool ipv6 : {false, true}) {
    train_.ipv6 = ipv6;
    for (const uint16_t number : std::array<uint16_t, 6>{0, 1, 0x8000, 0xff, 0xfffe, 0x1234}) {
      Frame frame = train_.Next(GetParam());
      const UdpFrame places = *FindUdp(frame);
      Renumber(frame, places, static_cast<uint16_t>(0xc000 ^ number), number);
      if (!ipv6) SetIdentification(frame, number);
      EXPECT_TRUE(IsRight(frame)) << number;
      EXPECT_EQ(WordAt(frame, places.udp_offset()), 0xc000 ^ number);
      EXPECT_EQ(WordAt(frame, 18) == number, !ipv6);
    }
  }
}

TEST_P(IcrcChangeTest, TheIcrcTellsTheIdentification) {
  const Frame sent = train_.Next(GetParam());
  for (const uint16_t other : std::array<uint16_t, 4>{0, 0xffff, 0x100, 0xfffe}) {
    Frame frame = sent;
    SetIdentification(frame, other);
    EXPECT_EQ(FindIdentification(frame, *FindUdp(frame)), 0xfffe) << other;
  }
}

// Of 65536 damaged packets about one has an identification that fits.
TEST_P(IcrcChangeTest, ADamagedPacketHasNoIdentification) {
  std::mt19937 random(7);  // NOLINT: the same packets each time.
  Frame frame = train_.Next(GetParam());
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    Frame damaged = frame;
    for (int flips = 0; flips < 9; ++flips) {
      damaged[54 + random() % (damaged.size() - 54)] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    if (FindIdentification(damaged, *FindUdp(damaged))) ++found;
  }
  EXPECT_LE(found, 2);
}

/// A superframe: the first frame, and the UDP payloads of the others.
Frame Joined(const std::vector<Frame>& frames) {
  const auto payload_offset = static_cast<ptrdiff_t>(FindUdp(frames[0])->payload_offset);
  Frame superframe = frames[0];
  for (size_t i = 1; i < frames.size(); ++i) {
    superframe.insert(superframe.end(), frames[i].begin() + payload_offset, frames[i].end());
  }
  return superframe;
}

uint16_t SegmentBytes(const Frame& first) {
  return static_cast<uint16_t>(first.size() - FindUdp(first)->payload_offset);
}

// Whether the first identification is one from which the changes are all alike, or any other.
TEST_P(IcrcChangeTest, RenumberedSegmentsAreThoseOfRenumberedPackets) {
  for (const bool ipv6 : {false, true}) {
    for (const uint16_t first : std::array<uint16_t, 4>{0, 64, 0xfffe, 0x1234}) {
      train_.ipv6 = ipv6;
      train_.identification = first;
      std::vector<Frame> frames;
      for (int i = 0; i < 5; ++i) frames.push_back(train_.Next(GetParam()));
      frames.push_back(train_.Next(GetParam() / 2));
      Frame superframe = Joined(frames);
      const UdpFrame places = *FindUdp(superframe);
      const Frame before = superframe;
      for (int again = 0; again < 2; ++again) {
        RenumberSegments(superframe, places, SegmentBytes(frames[0]), 0xc123);
      }
      uint16_t number = 0;
      for (Frame& frame : frames) Renumber(frame, places, 0xc123, number++);
      EXPECT_EQ(superframe, Joined(frames)) << first;
      EXPECT_NE(superframe, before);
    }
  }
}

TEST_P(IcrcChangeTest, ASuperframeTellsHowItsIdentificationsFollow) {
  for (const bool ipv6 : {false, true}) {
    for (const auto rule : {Identifications::kRising, Identifications::kSame}) {
      train_.ipv6 = ipv6;
      std::vector<Frame> frames;
      for (int i = 0; i < 4; ++i) {
        frames.push_back(train_.Next(GetParam()));
        if (rule == Identifications::kSame) --train_.identification;
      }
      Frame superframe = Joined(frames);
      const Frame before = superframe;
      const auto cutter = SuperframeCutter::Make(superframe, SegmentBytes(frames[0]));
      const auto expected = ipv6 ? Identifications::kRising : rule;
      EXPECT_EQ(FindIdentifications(superframe, *cutter), expected);
      EXPECT_EQ(superframe, before) << "It is as it was.";
      const size_t psn_at = cutter->places().payload_offset + size_t{11};
      for (const size_t at : {before.size() - 1, before.size() - 5, psn_at}) {
        superframe[at] ^= 4;
        EXPECT_EQ(FindIdentifications(superframe, *cutter), std::nullopt) << at;
        superframe[at] ^= 4;
      }
      // One of another rule among them.
      train_.identification = static_cast<uint16_t>(train_.identification + 7);
      frames.push_back(train_.Next(GetParam()));
      Frame mixed = Joined(frames);
      const auto mixed_cutter = SuperframeCutter::Make(mixed, SegmentBytes(frames[0]));
      EXPECT_EQ(FindIdentifications(mixed, *mixed_cutter).has_value(), ipv6);
    }
  }
}

// Whatever the BTHs say: the ICRC of each covers its own, but for the byte that switches change.
TEST_P(IcrcChangeTest, EachPacketOfASuperframeHasItsOwnBth) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    train_.ipv6 = round % 2 != 0;
    train_.psn = static_cast<uint32_t>(random()) & 0xffffff;
    std::vector<Frame> frames;
    for (int i = 0; i < 6; ++i) frames.push_back(train_.Next(GetParam()));
    const size_t bth = FindUdp(frames[0])->payload_offset;
    for (Frame& frame : frames) {
      for (const size_t at : {size_t{0}, size_t{1}, size_t{4}, size_t{8}, size_t{9}}) {
        if (random() % 3 == 0) frame[bth + at] = static_cast<uint8_t>(random());
      }
      const size_t covered = frame.size() - 4;
      StoreIcrc(frame.data() + covered,
                MaskedHeaderCrc32(frame.data() + 14, covered - 14, train_.ipv6));
    }
    Frame superframe = Joined(frames);
    const auto cutter = SuperframeCutter::Make(superframe, SegmentBytes(frames[0]));
    EXPECT_EQ(FindIdentifications(superframe, *cutter), Identifications::kRising) << round;
    for (uint32_t i = 0; i < 6; ++i) {
      for (size_t byte = 0; byte < 12; ++byte) {
        uint8_t& its = superframe[cutter->PayloadOffset(i) + byte];
        its ^= 0x10;
        EXPECT_EQ(FindIdentifications(superframe, *cutter).has_value(), byte == 4)
            << i << " " << byte;
        its ^= 0x10;
      }
    }
  }
}

TEST_P(IcrcChangeTest, NumbersAreThoseThatARenumberingGives) {
  Frame frame = train_.Next(GetParam());
  const Frame before = frame;
  const UdpFrame places = *FindUdp(frame);
  const FlowNumbers former = NumbersOf(frame, places);
  Renumber(frame, places, 0xc777, 3);
  EXPECT_EQ(NumbersOf(frame, places).source_port, 0xc777);
  EXPECT_EQ(NumbersOf(frame, places).identification, 3);
  Renumber(frame, places, former.source_port, former.identification);
  EXPECT_EQ(frame, before);
}

INSTANTIATE_TEST_SUITE_P(Payloads, IcrcChangeTest, testing::Values(0, 4, 64, 1024, 4096, 8900));

TEST(FieldChangeTest, IsTheInverse) {
  std::mt19937 random(11);  // NOLINT: the same changes each time.
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{40}, size_t{4096}, kMostBytesBehindField}) {
    for (int i = 0; i < 200; ++i) {
      const auto change = static_cast<uint16_t>(random());
      EXPECT_EQ(FieldChange(IcrcChange(change, bytes), bytes), change);
      EXPECT_EQ(FieldChange(IcrcChange(change, bytes) ^ 1u << i % 32, bytes), std::nullopt);
    }
  }
}

TEST(FindIdentificationTest, NeitherForIpv6NorForWhatIsTooShort) {
  PacketTrain train;
  train.ipv6 = true;
  const Frame ipv6 = train.Next(64);
  EXPECT_EQ(FindIdentification(ipv6, *FindUdp(ipv6)), std::nullopt);
  train.ipv6 = false;
  Frame frame = train.Next(64);
  frame.resize(42 + 15);
  EXPECT_EQ(FindIdentification(frame, *FindUdp(frame)), std::nullopt);
}

}  // namespace
}  // namespace uroce::wire
