// SPDX-License-Identifier: Apache-2.0
// ATOMIC WRITE: eight bytes at once, executed like an atomic and answered like a READ of nothing.
#include <gtest/gtest.h>

#include "tests/transport/script/selective_script.h"

namespace uroce::transport {
namespace {

constexpr char kRequest[] = "ATOMIC_WRITE psn=000200 len=8 va=1008 rkey=2a ackreq";

// [aw.request]
TEST(AtomicWrite, IsOnePacketThatItsOwnEmptyResponseCompletes) {
  Script s;
  s.Post(AtomicWrite()).Post(Send(0));
  s.SendsNext("ATOMIC_WRITE psn=000100 len=8 ackreq");
  EXPECT_EQ(s.sent().payload_source, TxPacket::Source::kSend);
  EXPECT_EQ(s.sent().local.length_bytes, 8u);
  EXPECT_EQ(s.sent().header.reth.length_bytes, 8u);
  s.SendsNext("SEND_ONLY psn=000101 len=0 ackreq");
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=0 msn=1").Does("");
  s.Completes({"0 ATOMIC_WRITE SUCCESS"});
}

// [aw.request 3.2.implied] An ACK does not complete it: its response was lost.
TEST(AtomicWrite, AnAckThatPassesOverItSendsItAgain) {
  Script s;
  s.Post(AtomicWrite()).Post(Send(0));
  s.Sends({"ATOMIC_WRITE psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=0 ackreq"});
  s.Receive("ACK psn=000101 msn=2").Nothing();
  s.Sends({"ATOMIC_WRITE psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=0 ackreq"});
}

// [aw.request 3.2.bad-response] What answers others does not answer it.
TEST(AtomicWrite, AnotherResponseIsABadOne) {
  for (const char* response :
       {"ATOMIC_ACK psn=000100 original=7 msn=1", "READ_RESPONSE_MIDDLE psn=000100 len=1024",
        "READ_RESPONSE_FIRST psn=000100 len=1024 msn=1"}) {
    Script s;
    s.Post(AtomicWrite()).Sends({"ATOMIC_WRITE psn=000100 len=8 ackreq"});
    s.Receive(response).Completes({"0 ATOMIC_WRITE BAD_RESP_ERR"});
  }
  Script s;
  s.Post(AtomicWrite()).Sends({"ATOMIC_WRITE psn=000100 len=8 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1").Completes({"0 ATOMIC_WRITE LOC_LEN_ERR"});
}

// [aw.request 3.1.3] It counts among READs and atomics.
TEST(AtomicWrite, WaitsForRoomAmongReads) {
  Script s({.max_rd_atomic = 1});
  s.Post(Read(8)).Post(AtomicWrite()).Sends({"READ_REQUEST psn=000100 len=8 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1").Completes({"0 READ SUCCESS"});
  s.Sends({"ATOMIC_WRITE psn=000101 len=8 ackreq"});
}

// [aw.response]
TEST(AtomicWrite, IsExecutedAndAnsweredByAnEmptyReadResponse) {
  Script s;
  s.Receive(kRequest).Does("place_remote rkey=2a va=1008 len=8 check=8");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=0 msn=1"});
  EXPECT_EQ(s.sent().payload_source, TxPacket::Source::kNone);
  EXPECT_EQ(s.counters().rx_atomic_requests, 1u);
}

// [aw.response 4.3.atomic] A duplicate is answered once more, and not executed.
TEST(AtomicWrite, ADuplicateIsAnsweredAndNotExecuted) {
  Script s;
  s.Receive(kRequest).Sends({"READ_RESPONSE_ONLY psn=000200 len=0 msn=1"});
  s.Receive("WRITE_ONLY psn=000201 len=8 va=1008 rkey=2a ackreq").Sends({"ACK psn=000201 msn=2"});
  s.Receive(kRequest).Result(PacketResult::kDuplicate).Does("");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=0 msn=2"});
  // Neither is what others would have asked for at this PSN.
  s.Receive("FETCH_ADD psn=000200 va=1008 add=1").Does("").Quiet();
  s.Receive("READ_REQUEST psn=000200 len=0 va=1008 rkey=2a").Does("").Quiet();
}

// [aw.response 2.ack] Its answer waits for those of READs before it, and acknowledges all before.
TEST(AtomicWrite, IsAnsweredInTurn) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=2048 va=1000 rkey=2a ackreq");
  s.Receive("ATOMIC_WRITE psn=000202 len=8 va=1008 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=2",
           "READ_RESPONSE_LAST psn=000201 len=1024 msn=2",
           "READ_RESPONSE_ONLY psn=000202 len=0 msn=2"});
}

// [aw.refused 6.invalid]
TEST(AtomicWrite, OtherThanEightAlignedBytesIsInvalid) {
  for (const char* packet : {"ATOMIC_WRITE psn=000200 len=4 va=1008 rkey=2a",
                             "ATOMIC_WRITE psn=000200 len=16 va=1008 rkey=2a",
                             "ATOMIC_WRITE psn=000200 len=8 total=16 va=1008 rkey=2a",
                             "ATOMIC_WRITE psn=000200 len=0 total=8 va=1008 rkey=2a",
                             "ATOMIC_WRITE psn=000200 len=8 va=100c rkey=2a"}) {
    Script s;
    s.Receive(packet).Result(PacketResult::kNak).Does("").State(QpState::kErr);
    s.Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"}).Raises({QpEvent::kQpReqErr});
  }
}

// [aw.refused 4.1.4 4.1.5.resources]
TEST(AtomicWrite, NeedsTheRightToWriteAndAResource) {
  Script without_right({.remote_access = false});
  without_right.Receive(kRequest).Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"});
  Script without_resources({.max_dest_rd_atomic = 0});
  without_resources.Receive(kRequest).Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"});
}

// [aw.refused 6.access]
TEST(AtomicWrite, AKeyThatDoesNotGrantItIsNakRemoteAccess) {
  Script s;
  s.NextOutcome(EffectOutcome::kRemoteAccess).Receive(kRequest);
  s.Sends({"NAK_REMOTE_ACCESS psn=000200 msn=0"}).State(QpState::kErr);
}

// [aw.response sr.order] Between two uroce NICs it waits for its turn, and the requester asks for a
// lost answer by the whole request.
TEST(AtomicWrite, IsRepeatedWholeAndExecutedInItsTurn) {
  Script responder(Selective());
  responder.Receive("ATOMIC_WRITE psn=000201 len=8 va=1008 rkey=2a ackreq").Does("keep");
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(AtomicWrite()).Post(Send(0));
  s.Sends({"ATOMIC_WRITE psn=000101 len=8 ackreq", "SEND_ONLY psn=000102 len=0 ackreq"});
  s.Receive("ACK psn=000102 msn=3").Nothing();
  s.Sends({"ATOMIC_WRITE psn=000101 len=8 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=0 msn=3");
  s.Completes({"1 ATOMIC_WRITE SUCCESS", "2 SEND SUCCESS"});
}

}  // namespace
}  // namespace uroce::transport
