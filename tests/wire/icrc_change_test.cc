// SPDX-License-Identifier: Apache-2.0
// ICRCs under changes of a field: docs/protocol/wire-format.md, section 7.4.
#include "pipeline/wire/icrc.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "pipeline/wire/decode.h"
#include "tests/wire/packet_train.h"

namespace uroce::wire {
namespace {

using Frame = std::vector<uint8_t>;

bool IsRight(const Frame& frame) {
  Packet packet;
  FrameView view;
  return Decode(frame, packet, view) == DecodeResult::kOk && IcrcIsRight(frame, view);
}

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
