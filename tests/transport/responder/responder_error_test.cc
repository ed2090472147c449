// SPDX-License-Identifier: Apache-2.0
// What a responder refuses: docs/protocol/transport.md, sections 4.1 and 6.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

/// One packet that is refused with NAK 0x61 at its PSN, told by an event.
void ExpectInvalid(Script& s, const std::string& packet, const std::string& nak) {
  s.Receive(packet).Result(PacketResult::kNak).Does("").State(QpState::kErr);
  s.Sends({nak}).Raises({QpEvent::kQpReqErr});
}

// [4.1.3 6.invalid] MIDDLE and LAST outside a message.
TEST(ResponderError, AMiddleWithoutAFirstIsInvalid) {
  for (const char* opcode : {"SEND_MIDDLE", "SEND_LAST", "WRITE_MIDDLE", "WRITE_LAST"}) {
    Script s;
    ExpectInvalid(s, std::string(opcode) + " psn=000200 len=1024",
                  "NAK_INVALID_REQUEST psn=000200 msn=0");
  }
}

// [4.1.3] Inside a WRITE only WRITE MIDDLE and LAST.
TEST(ResponderError, AnythingButItsRestInsideAWriteIsInvalid) {
  for (const char* packet :
       {"SEND_MIDDLE psn=000201 len=1024", "WRITE_FIRST psn=000201 len=1024 total=2000",
        "WRITE_ONLY psn=000201 len=8", "SEND_ONLY psn=000201 len=8",
        "READ_REQUEST psn=000201 len=8", "FETCH_ADD psn=000201 va=8 add=1"}) {
    Script s;
    s.PostReceive();
    s.Receive("WRITE_FIRST psn=000200 len=1024 total=3000 va=1000 rkey=2a");
    ExpectInvalid(s, packet, "NAK_INVALID_REQUEST psn=000201 msn=0");
    s.Completes({"0 RECEIVE WR_FLUSH_ERR"});
  }
}

// [4.1.3 6.invalid] Inside a SEND its receive work completes in error, so no event is raised.
TEST(ResponderError, AWrongOpcodeInsideASendFailsItsReceiveWork) {
  Script s;
  s.PostReceive().PostReceive();
  s.Receive("SEND_FIRST psn=000200 len=1024").Receive("WRITE_MIDDLE psn=000201 len=1024");
  s.Result(PacketResult::kNak).Sends({"NAK_INVALID_REQUEST psn=000201 msn=0"}).Raises({});
  s.Completes({"0 RECEIVE REM_INV_REQ_ERR", "1 RECEIVE WR_FLUSH_ERR"});
  EXPECT_EQ(s.counters().resp_cqe_error, 1u);
  EXPECT_EQ(s.counters().resp_cqe_flush_error, 1u);
}

// [4.1.3.reserved] All that no table has; 0x1c is FLUSH, which this does not serve.
TEST(ResponderError, AReservedOpcodeIsInvalid) {
  int reserved = 0;
  for (uint8_t operation = 0; operation < 0x20; ++operation) {
    const auto opcode = static_cast<wire::Opcode>(operation);
    if (wire::InfoOf(opcode).Has(wire::OpcodeInfo::kKnown)) continue;
    ++reserved;
    Script s;
    wire::Packet packet;
    packet.header.opcode = opcode;
    packet.header.psn = wire::Psn(0x200);
    Effect effect;
    EXPECT_EQ(s.qp().OnPacket(packet, Nanos(0), effect), PacketResult::kNak) << int{operation};
    s.Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"});
  }
  EXPECT_EQ(reserved, 8);
}

// [4.1.4] QP access flags; also for messages without bytes.
TEST(ResponderError, AMissingQpAccessFlagIsInvalid) {
  for (const char* packet :
       {"WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a", "WRITE_ONLY psn=000200 len=0",
        "READ_REQUEST psn=000200 len=8 va=1000 rkey=2a", "FETCH_ADD psn=000200 va=8 add=1",
        "COMPARE_SWAP psn=000200 va=8 compare=1 swap=2"}) {
    Script s({.remote_access = false});
    ExpectInvalid(s, packet, "NAK_INVALID_REQUEST psn=000200 msn=0");
  }
}

// [4.1.5.resources] No responder resources at all.
TEST(ResponderError, AReadWithoutResponderResourcesIsInvalid) {
  for (const char* packet :
       {"READ_REQUEST psn=000200 len=8 va=1000 rkey=2a", "FETCH_ADD psn=000200 va=8 add=1"}) {
    Script s({.max_dest_rd_atomic = 0});
    ExpectInvalid(s, packet, "NAK_INVALID_REQUEST psn=000200 msn=0");
  }
}

// [4.1.5.resources 4.1.nak] More requests outstanding than slots; an answered slot is taken again.
TEST(ResponderError, MoreReadsThanResourcesAreInvalidUntilAnswered) {
  Script s({.max_dest_rd_atomic = 1});
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=8 msn=1"});
  s.Receive("READ_REQUEST psn=000201 len=8 va=1000 rkey=2a ackreq").Result(PacketResult::kAccepted);
  s.Receive("READ_REQUEST psn=000202 len=8 va=1000 rkey=2a ackreq").Result(PacketResult::kNak);
  // Section 4.1, end: the NAK goes behind the responses of earlier requests.
  s.Sends({"READ_RESPONSE_ONLY psn=000201 len=8 msn=2", "NAK_INVALID_REQUEST psn=000202 msn=2"});
}

// [4.1.6] docs/protocol/wire-format.md, section 5.
TEST(ResponderError, PayloadsThatDoNotFitTheirPlaceAreInvalid) {
  for (const char* packet :
       {"WRITE_FIRST psn=000200 len=1023 total=2000", "WRITE_FIRST psn=000200 len=1025 total=2000",
        "WRITE_FIRST psn=000200 len=1024 total=1024", "WRITE_FIRST psn=000200 len=1024 total=8",
        "WRITE_ONLY psn=000200 len=8 total=9", "WRITE_ONLY psn=000200 len=9 total=8",
        "WRITE_ONLY psn=000200 len=1025 total=1025"}) {
    Script s;
    ExpectInvalid(s, packet, "NAK_INVALID_REQUEST psn=000200 msn=0");
  }
}

// [4.1.6.total]
TEST(ResponderError, AWriteThatEndsEarlyOrLateIsInvalid) {
  for (const char* packet : {"WRITE_LAST psn=000201 len=975", "WRITE_LAST psn=000201 len=977",
                             "WRITE_LAST psn=000201 len=0", "WRITE_MIDDLE psn=000201 len=1024"}) {
    Script s;
    s.Receive("WRITE_FIRST psn=000200 len=1024 total=2000 va=1000 rkey=2a");
    ExpectInvalid(s, packet, "NAK_INVALID_REQUEST psn=000201 msn=0");
  }
}

// [4.1.6 6.invalid]
TEST(ResponderError, SendPayloadsThatDoNotFitTheirPlaceAreInvalid) {
  Script first;
  first.PostReceive().Receive("SEND_FIRST psn=000200 len=1000").Result(PacketResult::kNak);
  first.Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"}).Raises({});
  first.Completes({"0 RECEIVE REM_INV_REQ_ERR"});
  Script last;
  last.PostReceive()
      .Receive("SEND_FIRST psn=000200 len=1024")
      .Receive("SEND_LAST psn=000201 len=0");
  last.Result(PacketResult::kNak).Completes({"0 RECEIVE REM_INV_REQ_ERR"});
}

// [4.1.6.limit] RETH.length above 2^31.
TEST(ResponderError, ALengthAbove2To31IsInvalid) {
  for (const char* packet : {"WRITE_FIRST psn=000200 len=1024 total=2147483649",
                             "READ_REQUEST psn=000200 len=2147483649"}) {
    Script s;
    ExpectInvalid(s, packet, "NAK_INVALID_REQUEST psn=000200 msn=0");
  }
}

// [4.1.6.receive 6.receive-short] SEND longer than the receive work.
TEST(ResponderError, ASendLongerThanItsReceiveWorkIsInvalid) {
  Script only;
  only.PostReceive(7).Receive("SEND_ONLY psn=000200 len=8 ackreq").Does("");
  only.Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"}).Raises({});
  only.Completes({"0 RECEIVE LOC_LEN_ERR"}).State(QpState::kErr);
  EXPECT_EQ(only.counters().resp_local_length_error, 1u);
  Script last;
  last.PostReceive(1030).Receive("SEND_FIRST psn=000200 len=1024");
  last.Receive("SEND_LAST psn=000201 len=7 ackreq").Does("");
  last.Sends({"NAK_INVALID_REQUEST psn=000201 msn=0"}).Completes({"0 RECEIVE LOC_LEN_ERR"});
}

// [6.receive-key] Bad lkey or no right in the receive work.
TEST(ResponderError, AReceiveThatCannotBePlacedIsARemoteOperationError) {
  Script s;
  s.PostReceive().PostReceive().NextOutcome(EffectOutcome::kLocalProtection);
  s.Receive("SEND_ONLY psn=000200 len=8 ackreq").State(QpState::kErr);
  s.Sends({"NAK_REMOTE_OPERATION psn=000200 msn=0"}).Raises({});
  s.Completes({"0 RECEIVE LOC_PROT_ERR", "1 RECEIVE WR_FLUSH_ERR"});
}

// [12.solicited] A program that waits for solicited completions learns of errors too.
TEST(ResponderError, AReceiveCompletionInErrorIsSolicited) {
  Script s;
  s.PostReceive(7).Receive("SEND_ONLY psn=000200 len=8 ackreq");
  Completion completion;
  ASSERT_TRUE(s.qp().PollCompletion(completion));
  EXPECT_EQ(completion.status, WcStatus::kLocLenErr);
  EXPECT_TRUE(completion.solicited);
}

// [6.receive-malformed] Malformed receive work.
TEST(ResponderError, AMalformedReceiveWorkIsARemoteOperationError) {
  for (const char* packet : {"SEND_ONLY psn=000200 len=8 ackreq",
                             "WRITE_ONLY_WITH_IMM psn=000200 len=8 imm=00000001 ackreq"}) {
    Script s;
    s.PostReceive(64, true).Receive(packet).Does("");
    s.Sends({"NAK_REMOTE_OPERATION psn=000200 msn=0"}).Completes({"0 RECEIVE LOC_QP_OP_ERR"});
  }
}

// [4.1.7 6.access] R_Key invalid, bounds, permission.
TEST(ResponderError, AWrongKeyIsARemoteAccessError) {
  for (const char* packet : {"WRITE_ONLY psn=000200 len=8 va=1000 rkey=bad ackreq",
                             "WRITE_FIRST psn=000200 len=1024 total=2000 va=1000 rkey=bad",
                             "READ_REQUEST psn=000200 len=8 va=1000 rkey=bad ackreq",
                             "FETCH_ADD psn=000200 va=8 rkey=bad add=1 ackreq"}) {
    Script s;
    s.PostReceive().NextOutcome(EffectOutcome::kRemoteAccess).Receive(packet);
    s.State(QpState::kErr).Sends({"NAK_REMOTE_ACCESS psn=000200 msn=0"});
    s.Raises({QpEvent::kQpAccessErr}).Completes({"0 RECEIVE WR_FLUSH_ERR"});
    EXPECT_EQ(s.counters().resp_remote_access_errors, 1u);
  }
}

// [4.1.7.alignment] Atomics need eight-byte alignment.
TEST(ResponderError, AMisalignedAtomicIsInvalid) {
  Script s;
  ExpectInvalid(s, "FETCH_ADD psn=000200 va=1004 rkey=2a add=1",
                "NAK_INVALID_REQUEST psn=000200 msn=0");
}

// [4.1.nak] After a fatal NAK everything later is dropped; owed responses still leave.
TEST(ResponderError, AfterAFatalNakNothingElseIsTaken) {
  Script s;
  s.PostReceive();
  s.Receive("READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a ackreq");
  s.NextOutcome(EffectOutcome::kRemoteAccess);
  s.Receive("WRITE_ONLY psn=000202 len=8 va=1000 rkey=bad ackreq");
  s.Receive("SEND_ONLY psn=000203 len=8 ackreq").Result(PacketResult::kBadState);
  s.Receive("READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a ackreq");
  s.Result(PacketResult::kBadState);
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=976 msn=1", "NAK_REMOTE_ACCESS psn=000202 msn=1"});
}

// [3.2.nak.in-read] Access lost half way through a READ.
TEST(ResponderError, AResponseThatCannotBeReadBecomesANak) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=3000 va=1000 rkey=2a ackreq");
  s.Receive("READ_REQUEST psn=000203 len=8 va=1000 rkey=2a ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=2");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000201 len=1024").GatherFails().State(QpState::kErr);
  s.Sends({"NAK_REMOTE_ACCESS psn=000201 msn=2"}).Raises({QpEvent::kQpAccessErr});
}

// [3.2.nak.in-read] The same for the last packet of a READ.
TEST(ResponderError, AnOnlyResponseThatCannotBeReadBecomesANak) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.SendsNext("READ_RESPONSE_ONLY psn=000200 len=8 msn=1").GatherFails();
  s.Sends({"NAK_REMOTE_ACCESS psn=000200 msn=1"}).State(QpState::kErr);
}

}  // namespace
}  // namespace uroce::transport
