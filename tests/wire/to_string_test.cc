// SPDX-License-Identifier: Apache-2.0
// The text of packets that scripted tests and tools compare and print.
#include "pipeline/wire/to_string.h"

#include <gtest/gtest.h>

#include <cstring>

#include "pipeline/wire/packet.h"

namespace uroce::wire {
namespace {

TEST(ToStringTest, RequestsShowTheirPayloadAndFlags) {
  TransportHeader header{.opcode = Opcode::kWriteFirst, .psn = Psn(0xffffff)};
  EXPECT_EQ(ToString(header, 1024), "WRITE_FIRST psn=ffffff len=1024");
  header.opcode = Opcode::kWriteLast;
  header.psn = Psn(0);
  header.ack_request = true;
  EXPECT_EQ(ToString(header, 476), "WRITE_LAST psn=000000 len=476 ackreq");
  header.solicited = true;
  EXPECT_EQ(ToString(header, 0), "WRITE_LAST psn=000000 len=0 ackreq se");
}

TEST(ToStringTest, ImmediateIsShownInWireOrder) {
  TransportHeader header{.opcode = Opcode::kSendOnlyWithImm, .psn = Psn(1)};
  std::memcpy(&header.immediate, "\xa1\xb2\xc3\xd4", 4);
  EXPECT_EQ(ToString(header, 5), "SEND_ONLY_WITH_IMM psn=000001 len=5 imm=a1b2c3d4");
}

TEST(ToStringTest, InvalidatedKeyIsShown) {
  const TransportHeader header{.opcode = Opcode::kSendOnlyWithInvalidate,
                               .psn = Psn(0x10b),
                               .invalidate_rkey = Rkey(0x08000127)};
  EXPECT_EQ(ToString(header, 16), "SEND_ONLY_WITH_INVALIDATE psn=00010b len=16 inv=08000127");
}

TEST(ToStringTest, ReadsShowTheBytesAskedForAndAnswered) {
  TransportHeader header{
      .opcode = Opcode::kReadRequest, .psn = Psn(0x14), .reth = {.length_bytes = 2049}};
  EXPECT_EQ(ToString(header, 0), "READ_REQUEST psn=000014 len=2049");
  header.opcode = Opcode::kReadResponseFirst;
  header.aeth = {.syndrome = 0x1f, .msn = 1};
  EXPECT_EQ(ToString(header, 1024), "READ_RESPONSE_FIRST psn=000014 len=1024 msn=1");
  header.opcode = Opcode::kReadResponseMiddle;
  EXPECT_EQ(ToString(header, 1024), "READ_RESPONSE_MIDDLE psn=000014 len=1024");
}

TEST(ToStringTest, AtomicsShowTheirOperands) {
  TransportHeader header{.opcode = Opcode::kCompareSwap,
                         .psn = Psn(0x15),
                         .atomic = {.swap_add = 0xab, .compare = 0xcd}};
  EXPECT_EQ(ToString(header, 0), "COMPARE_SWAP psn=000015 compare=cd swap=ab");
  header.opcode = Opcode::kFetchAdd;
  EXPECT_EQ(ToString(header, 0), "FETCH_ADD psn=000015 add=ab");
  header.opcode = Opcode::kAtomicAcknowledge;
  header.aeth = {.syndrome = 0x1f, .msn = 2};
  header.atomic_original = 0x10;
  EXPECT_EQ(ToString(header, 0), "ATOMIC_ACK psn=000015 msn=2 original=10");
  header.opcode = Opcode::kAtomicWrite;
  EXPECT_EQ(ToString(header, 8), "ATOMIC_WRITE psn=000015 len=8");
}

TEST(ToStringTest, AcknowledgementsGoByTheirSyndrome) {
  TransportHeader header{.opcode = Opcode::kAcknowledge, .aeth = {.syndrome = 0x1f, .msn = 1}};
  EXPECT_EQ(ToString(header, 0), "ACK psn=000000 msn=1");
  header.aeth.syndrome = 0x05;
  EXPECT_EQ(ToString(header, 0), "ACK psn=000000 msn=1 credits=5");
  header.aeth.syndrome = kSyndromeRnrNak | 12;
  EXPECT_EQ(ToString(header, 0), "RNR_NAK psn=000000 msn=1 timer=12");
  header.aeth.syndrome = kNakSequence;
  EXPECT_EQ(ToString(header, 0), "NAK_SEQ psn=000000 msn=1");
  header.aeth.syndrome = kNakInvalidRequest;
  EXPECT_EQ(ToString(header, 0), "NAK_INVALID_REQUEST psn=000000 msn=1");
  header.aeth.syndrome = kNakRemoteAccess;
  EXPECT_EQ(ToString(header, 0), "NAK_REMOTE_ACCESS psn=000000 msn=1");
  header.aeth.syndrome = kNakRemoteOperation;
  EXPECT_EQ(ToString(header, 0), "NAK_REMOTE_OPERATION psn=000000 msn=1");
  header.aeth.syndrome = 0x7f;
  EXPECT_EQ(ToString(header, 0), "AETH_RESERVED psn=000000 msn=1");
}

TEST(ToStringTest, OtherServicesAreNamedInFront) {
  EXPECT_EQ(OpcodeName(static_cast<Opcode>(0x24)), "UC_SEND_ONLY");
  EXPECT_EQ(OpcodeName(static_cast<Opcode>(0xac)), "XRC_READ_REQUEST");
  EXPECT_EQ(OpcodeName(Opcode::kUdSendOnlyWithImm), "UD_SEND_ONLY_WITH_IMM");
  EXPECT_EQ(OpcodeName(Opcode::kCnp), "CNP");
  EXPECT_EQ(OpcodeName(static_cast<Opcode>(0x15)), "UNKNOWN");
}

}  // namespace
}  // namespace uroce::wire
