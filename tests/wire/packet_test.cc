// SPDX-License-Identifier: Apache-2.0
// Packet sequence numbers and the properties of each opcode.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "pipeline/wire/packet.h"
#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

// Circular arithmetic of packet sequence numbers.

TEST(PsnTest, KeepsTwentyFourBits) { EXPECT_EQ(Psn(0x12345678).value(), 0x345678u); }

TEST(PsnTest, AddsAndSubtractsAcrossTheWrap) {
  EXPECT_EQ(Psn(0xffffff) + 1, Psn(0));
  EXPECT_EQ(Psn(0xfffffe) + 5, Psn(3));
  EXPECT_EQ(Psn(0) - 1, Psn(0xffffff));
  EXPECT_EQ(Psn(2) - 5, Psn(0xfffffd));
}

TEST(PsnTest, DistanceIsSignedAcrossTheWrap) {
  EXPECT_EQ(Psn(2).Since(Psn(0xfffffe)), 4);
  EXPECT_EQ(Psn(0xfffffe).Since(Psn(2)), -4);
  EXPECT_EQ(Psn(7).Since(Psn(7)), 0);
}

TEST(PsnTest, HalfTheSpaceIsTheFutureAndHalfThePast) {
  EXPECT_EQ(Psn(0x7fffff).Since(Psn(0)), 0x7fffff);
  EXPECT_EQ(Psn(0x800000).Since(Psn(0)), -0x800000);
  EXPECT_EQ(Psn(0x7ffffe).Since(Psn(0xffffff)), 0x7fffff);
  EXPECT_EQ(Psn(0x7fffff).Since(Psn(0xffffff)), -0x800000);
}

// The opcode table against the rules of docs/protocol/wire-format.md, section 5.

using I = OpcodeInfo;

OpcodeInfo At(int value) { return InfoOf(static_cast<Opcode>(value)); }

std::set<int> Known() {
  std::set<int> known;
  for (int value = 0; value < 256; ++value) {
    if (At(value).Has(I::kKnown)) known.insert(value);
  }
  return known;
}

TEST(OpcodeTest, KnowsTheOpcodesOfTheTablesAndNoOthers) {
  std::set<int> expected = {0x64, 0x65, 0x81, 0xd1, 0xf1};
  for (int code = 0; code <= 0x1d; ++code) {
    if (code == 0x15 || (code > 0x17 && code < 0x1d)) continue;
    expected.insert(code);
    expected.insert(0xa0 + code);
    if (code <= 0x0b) expected.insert(0x20 + code);
  }
  EXPECT_EQ(Known(), expected);
}

TEST(OpcodeTest, HeaderBytesAreThoseOfBthAndTheExtendedHeaders) {
  EXPECT_EQ(InfoOf(Opcode::kSendOnly).header_bytes, 12);
  EXPECT_EQ(InfoOf(Opcode::kSendOnlyWithImm).header_bytes, 16);
  EXPECT_EQ(InfoOf(Opcode::kWriteOnly).header_bytes, 28);
  EXPECT_EQ(InfoOf(Opcode::kWriteOnlyWithImm).header_bytes, 32);
  EXPECT_EQ(InfoOf(Opcode::kReadRequest).header_bytes, 28);
  EXPECT_EQ(InfoOf(Opcode::kReadResponseFirst).header_bytes, 16);
  EXPECT_EQ(InfoOf(Opcode::kReadResponseMiddle).header_bytes, 12);
  EXPECT_EQ(InfoOf(Opcode::kAcknowledge).header_bytes, 16);
  EXPECT_EQ(InfoOf(Opcode::kAtomicAcknowledge).header_bytes, 24);
  EXPECT_EQ(InfoOf(Opcode::kCompareSwap).header_bytes, 40);
  EXPECT_EQ(InfoOf(Opcode::kSendOnlyWithInvalidate).header_bytes, 16);
  EXPECT_EQ(InfoOf(Opcode::kAtomicWrite).header_bytes, 28);
  EXPECT_EQ(InfoOf(Opcode::kUdSendOnlyWithImm).header_bytes, 24);
  EXPECT_EQ(InfoOf(Opcode::kCnp).header_bytes, 12);
}

TEST(OpcodeTest, XrcRequestsNameTheirSrqAndXrcResponsesDoNot) {
  for (int code = 0; code <= 0x17; ++code) {
    const OpcodeInfo rc = At(code);
    const OpcodeInfo xrc = At(0xa0 + code);
    const bool request = rc.Has(I::kRequest);
    EXPECT_EQ(xrc.Has(I::kXrceth), request) << code;
    EXPECT_EQ(xrc.header_bytes, rc.header_bytes + (request ? 4 : 0)) << code;
    EXPECT_EQ(xrc.traits, rc.traits) << code;
  }
}

TEST(OpcodeTest, EveryKnownPacketButTheCnpIsEitherRequestOrResponse) {
  for (int value : Known()) {
    if (value == 0x81) continue;
    EXPECT_NE(At(value).Has(I::kRequest), At(value).Has(I::kResponse)) << value;
  }
}

TEST(OpcodeTest, FirstAndMiddlePacketsFillThePathMtu) {
  for (int value : Known()) {
    const OpcodeInfo info = At(value);
    const bool unfinished = info.Has(I::kPayload) && !info.Has(I::kLast) && value != 0x81;
    EXPECT_EQ(info.Has(I::kFullPayload), unfinished) << value;
  }
}

TEST(OpcodeTest, OnlyTheRowsOfTheTableCarryPayload) {
  const std::set<int> without = {0x0c, 0x11, 0x12, 0x13, 0x14};
  for (int code = 0; code <= 0x1d; ++code) {
    if (code == 0x15 || (code > 0x17 && code < 0x1d)) continue;
    EXPECT_EQ(At(code).Has(I::kPayload), !without.contains(code)) << code;
  }
}

TEST(OpcodeTest, ThoseOfManufacturersBelongToReliableConnections) {
  constexpr auto kXrc = static_cast<Opcode>(0xf1);
  EXPECT_EQ(ServiceOf(Opcode::kSelectiveAcknowledge), Service::kRc);
  EXPECT_EQ(ServiceOf(kXrc), Service::kXrc);
  EXPECT_EQ(OpcodeOf(Service::kRc, Opcode::kSelectiveAcknowledge), Opcode::kSelectiveAcknowledge);
  EXPECT_EQ(OpcodeOf(Service::kXrc, Opcode::kSelectiveAcknowledge), kXrc);
  EXPECT_TRUE(InfoOf(kXrc).Has(I::kKeptMap));
}

TEST(OpcodeTest, ServiceIsTheTopThreeBits) {
  EXPECT_EQ(ServiceOf(Opcode::kAcknowledge), Service::kRc);
  EXPECT_EQ(ServiceOf(Opcode::kUdSendOnly), Service::kUd);
  EXPECT_EQ(ServiceOf(Opcode::kCnp), Service::kCnp);
  EXPECT_EQ(ServiceOf(static_cast<Opcode>(0xa4)), Service::kXrc);
}

// What an acknowledgement carries beside its PSN.

// The wait that a response tells of (pipeline/wire/packet.h).

TEST(HostDelayTest, EachCodeIsTheTimeThatItStandsFor) {
  EXPECT_EQ(HostDelayOf(0), Nanos(0));
  for (uint8_t code = 1; code <= kHostDelayMask; ++code) {
    EXPECT_GT(HostDelayOf(code), HostDelayOf(code - 1)) << int{code};
    EXPECT_EQ(HostDelayCode(HostDelayOf(code)), code);
    EXPECT_EQ(HostDelayCode(HostDelayOf(code) - Nanos(1)), code - 1);
  }
  EXPECT_EQ(HostDelayOf(kHostDelayMask), Nanos(7 * 32'768 * 8'000ll));
}

// No peer learns of more than there was, nor of less than four fifths.
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
