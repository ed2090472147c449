// SPDX-License-Identifier: Apache-2.0
// The wait that a response tells of (pipeline/wire/acknowledgement.h).
#include "pipeline/wire/acknowledgement.h"

#include <gtest/gtest.h>

#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

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

}  // namespace
}  // namespace uroce::wire
