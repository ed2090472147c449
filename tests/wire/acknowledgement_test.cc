// SPDX-License-Identifier: Apache-2.0
// What an acknowledgement carries beside its PSN.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "pipeline/wire/acknowledgement.h"
#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

// The wait that a response tells of (pipeline/wire/acknowledgement.h).

TEST(HostDelayTest, EachCodeIsTheTimeThatItStandsFor) {
  EXPECT_EQ(HostDelayOf(0), Nanos(0));
  for (uint8_t code = 1; code <= kHostDelayMask; ++code) {
    EXPECT_GT(HostDelayOf(code), HostDelayOf(code - 1)) << int{code};
    EXPECT_EQ(HostDelayCode(HostDelayOf(code)), code);
    EXPECT_EQ(HostDelayCode(HostDelayOf(code) - Nanos(1)), code - 1);
  }
  EXPECT_EQ(HostDelayOf(kHostDelayMask), Nanos(7 * 32'768 * 8'000ll));
}

// Nobody is told of more than there was, and of no less than four fifths.
TEST(HostDelayTest, ATimeIsToldWithoutExaggeration) {
  for (int64_t delay = 40'000; delay < 1'000'000'000; delay += delay / 7) {
    const int64_t told = HostDelayOf(HostDelayCode(Nanos(delay))).count();
    EXPECT_LE(told, delay);
    EXPECT_GT(told * 5, delay * 4);
  }
  EXPECT_EQ(HostDelayCode(Nanos(39'999)), 0);
  EXPECT_EQ(HostDelayCode(Nanos(-1)), 0);
  EXPECT_EQ(HostDelayCode(Nanos(INT64_MAX)), kHostDelayMask);
}

/// What Decode finds of a header that was encoded.
TransportHeader Decoded(const TransportHeader& header) {
  const std::vector<uint8_t> frame = EncodeFrame({}, header, {}, 0);
  Packet packet;
  FrameView view;
  EXPECT_EQ(Decode(frame, packet, view), DecodeResult::kOk);
  return packet.header;
}

TEST(HostDelayTest, TheBthCarriesIt) {
  TransportHeader header;
  header.opcode = Opcode::kAcknowledge;
  for (const uint8_t code : std::initializer_list<uint8_t>{0, 1, 0x2a, 0x3f}) {
    header.host_delay = code;
    EXPECT_EQ(Decoded(header).host_delay, code);
  }
  header.host_delay = 0xff;  // No more than its bits: FECN and BECN lie beside them.
  EXPECT_EQ(Decoded(header).host_delay, 0x3f);
}

std::vector<uint8_t> MapOf(uint32_t packets, uint64_t bits) {
  std::array<uint8_t, kMaxKeptMapBytes> map{};
  const uint32_t size = WriteKeptMap(
      packets, [bits](uint32_t) { return bits; }, map);
  return {map.begin(), map.begin() + size};
}

TEST(KeptMapTest, LiesOnTheWireAsItIsDescribed) {
  const std::vector<uint8_t> expected = {0, 0, 0, 34, 0x80, 0, 0, 2, 0, 0, 0, 1};
  EXPECT_EQ(MapOf(34, 0x1'8000'0002), expected);
}

TEST(KeptMapTest, WhatWasWrittenIsRead) {
  for (const uint32_t packets : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 1000u, kMaxKeptPackets}) {
    const std::vector<uint8_t> bytes = MapOf(packets, ~uint64_t{0});
    EXPECT_EQ(bytes.size(), KeptMapBytes(packets));
    KeptMap map;
    ASSERT_TRUE(map.Parse(bytes)) << packets;
    EXPECT_EQ(map.packets(), packets);
    uint32_t kept = 0;
    for (uint32_t first = 0; first < kMaxKeptPackets; first += 64) {
      kept += static_cast<uint32_t>(__builtin_popcountll(map.Kept(first)));
    }
    EXPECT_EQ(kept, packets) << "nothing behind the last";
  }
}

TEST(KeptMapTest, WhatIsNoMapIsRefused) {
  KeptMap map;
  EXPECT_FALSE(map.Parse({}));
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0}));
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0, 0})) << "of no packet";
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0, 1})) << "without its word";
  EXPECT_TRUE(map.Parse(std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})) << "too long";
  EXPECT_FALSE(map.Parse(std::vector<uint8_t>(KeptMapBytes(kMaxKeptPackets + 1), 0xff)));
}

TEST(KeptMapTest, BitsBehindTheLastPacketSayNothing) {
  const std::vector<uint8_t> bytes = {0xff, 0xff, 0, 3, 0xff, 0xff, 0xff, 0xff};
  KeptMap map;
  ASSERT_TRUE(map.Parse(bytes)) << "reserved bits are ignored";
  EXPECT_EQ(map.Kept(0), 7u);
}

}  // namespace
}  // namespace uroce::wire
