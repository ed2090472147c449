// SPDX-License-Identifier: Apache-2.0
// Gaps and duplicates at a responder: docs/protocol/transport.md, sections 4.1, 2 and 4.3.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [4.1.2.gap 2.psn.classes] One NAK a gap, with the PSN that is missing.
TEST(ResponderSequence, AGapIsReportedOnce) {
  Script s({.rq_psn = 0xffffff});
  s.Receive("WRITE_ONLY psn=000000 len=8 va=1000 rkey=2a ackreq");
  s.Result(PacketResult::kOutOfSequence).Does("").Sends({"NAK_SEQ psn=ffffff msn=0"});
  s.Receive("WRITE_ONLY psn=000001 len=8 va=1000 rkey=2a ackreq").Quiet();
  s.Receive("WRITE_ONLY psn=ffffff len=8 va=1000 rkey=2a ackreq").Result(PacketResult::kAccepted);
  s.Sends({"ACK psn=ffffff msn=1"}).State(QpState::kRts);
  EXPECT_EQ(s.counters().out_of_sequence, 2u);
}

// [4.1.2.again] A second gap gives a second NAK. golden/linux-rxe-4-loss, case 13.
TEST(ResponderSequence, ASecondGapIsReportedAgain) {
  Script s;
  s.Receive("WRITE_ONLY psn=000201 len=8 va=1000 rkey=2a").Sends({"NAK_SEQ psn=000200 msn=0"});
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a").Quiet();
  s.Receive("WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a").Sends({"NAK_SEQ psn=000201 msn=1"});
}

// [4.1.2.again] Answering a valid duplicate makes the responder speak again.
TEST(ResponderSequence, AnAnsweredDuplicateReopensTheGapReport) {
  Script s;
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a").Sends({"NAK_SEQ psn=000201 msn=1"});
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a").Sends({"NAK_SEQ psn=000201 msn=1"});
}

// [4.1.nak] A NAK that is older than the next reply leaves before it.
TEST(ResponderSequence, ASequenceNakKeepsItsPlaceAmongReplies) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Receive("WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a ackreq");
  s.Receive("READ_REQUEST psn=000201 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=8 msn=2", "NAK_SEQ psn=000201 msn=2",
           "READ_RESPONSE_ONLY psn=000201 len=8 msn=2"});
}

// [2.psn.classes] Half of the space ahead is a gap, half behind is the past.
TEST(ResponderSequence, TellsFarAheadFromFarBehind) {
  Script s({.rq_psn = 0});
  s.Receive("WRITE_ONLY psn=7fffff len=8 va=1000 rkey=2a ackreq");
  s.Result(PacketResult::kOutOfSequence).Sends({"NAK_SEQ psn=000000 msn=0"});
  s.Receive("WRITE_ONLY psn=800000 len=8 va=1000 rkey=2a ackreq").Result(PacketResult::kDuplicate);
  s.Does("");
}

// [4.3.message] Duplicates of SENDs and WRITEs are not executed; one ACK with the newest PSN.
TEST(ResponderSequence, DuplicateSendsAndWritesAreAcknowledgedNotExecuted) {
  Script s;
  s.PostReceive().PostReceive();
  s.Receive("SEND_ONLY psn=000200 len=8 ackreq");
  s.Receive("WRITE_ONLY psn=000201 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000201 msn=2"});
  s.Completes({"0 RECEIVE SUCCESS len=8"});
  s.Receive("SEND_ONLY psn=000200 len=8 ackreq").Result(PacketResult::kDuplicate).Does("");
  s.Receive("WRITE_ONLY psn=000201 len=8 va=1000 rkey=2a ackreq").Does("").Nothing();
  s.Sends({"ACK psn=000201 msn=2"});
  EXPECT_EQ(s.counters().duplicate_request, 2u);
  s.Receive("SEND_ONLY psn=000200 len=8").Quiet();
}

// [4.3.message] An ACK with the PSN of a READ or atomic would be taken for its response: rxe 6.1
// completes the request without data. So a duplicate before it is acknowledged up to the newest
// SEND or WRITE.
TEST(ResponderSequence, AnAckNeverCarriesThePsnOfAReadOrAtomic) {
  Script s;
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("FETCH_ADD psn=000201 va=1000 rkey=2a add=1 ackreq");
  s.Sends({"ATOMIC_ACK psn=000201 msn=2 original=0"});
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=2"});
  s.Receive("READ_REQUEST psn=000202 len=2000 va=1000 rkey=2a ackreq");
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000202 len=1024 msn=3",
           "READ_RESPONSE_LAST psn=000203 len=976 msn=3", "ACK psn=000200 msn=3"});
}

// [4.3.silent] A "duplicate" SEND or WRITE behind all that were executed never was one.
TEST(ResponderSequence, AWriteWithThePsnOfAnExecutedReadIsDropped) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=8 msn=1"});
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Result(PacketResult::kDuplicate).Quiet();
}

// [4.3.message] Golden/linux-rxe-4-loss, case 6: in the middle of a message the newest packet is
// acknowledged.
TEST(ResponderSequence, ADuplicateInsideAMessageAcknowledgesTheNewestPacket) {
  Script s;
  s.Receive("WRITE_FIRST psn=000200 len=1024 total=3000 va=1000 rkey=2a");
  s.Receive("WRITE_MIDDLE psn=000201 len=1024");
  s.Receive("WRITE_FIRST psn=000200 len=1024 total=3000 va=1000 rkey=2a ackreq").Does("");
  s.Sends({"ACK psn=000201 msn=0"});
  s.Receive("WRITE_LAST psn=000202 len=952 ackreq")
      .Does("place_remote rkey=2a va=1800 len=952 check=952");
  s.Sends({"ACK psn=000202 msn=1"});
}

// [4.3.read] A duplicate READ is answered again, its key checked again.
TEST(ResponderSequence, ADuplicateReadIsAnsweredAgain) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=976 msn=1"});
  s.Receive("READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a ackreq");
  s.Result(PacketResult::kDuplicate).Does("check_remote rkey=2a va=1000 len=2000");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=976 msn=1"});
  EXPECT_TRUE(s.sent().retransmission);
}

// [4.3.read.tail] A tail starts with FIRST or ONLY.
TEST(ResponderSequence, APartialReadReplayStartsWithFirstOrOnly) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=3000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024",
           "READ_RESPONSE_LAST psn=000202 len=952 msn=1"});
  s.Receive("READ_REQUEST psn=000201 len=1976 va=1400 rkey=2a ackreq");
  s.Does("check_remote rkey=2a va=1400 len=1976");
  s.Sends({"READ_RESPONSE_FIRST psn=000201 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000202 len=952 msn=1"});
  s.Receive("READ_REQUEST psn=000202 len=952 va=1800 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000202 len=952 msn=1"});
  EXPECT_EQ(s.sent().remote.va, 0x1800u);
  // Below an earlier replay: the whole is still at hand.
  s.Receive("READ_REQUEST psn=000200 len=3000 va=1000 rkey=2a ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1");
}

// [4.3.silent] What is no tail of the original is dropped silently.
TEST(ResponderSequence, ADuplicateReadThatIsNoTailIsDropped) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=3000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024",
           "READ_RESPONSE_LAST psn=000202 len=952 msn=1"});
  for (const char* packet : {"READ_REQUEST psn=000200 len=3000 va=1008 rkey=2a",
                             "READ_REQUEST psn=000200 len=3000 va=1000 rkey=2b",
                             "READ_REQUEST psn=000200 len=3001 va=1000 rkey=2a",
                             "READ_REQUEST psn=000201 len=1024 va=1400 rkey=2a",
                             "READ_REQUEST psn=0001ff len=8 va=1000 rkey=2a"}) {
    s.Receive(packet).Result(PacketResult::kDuplicate).Does("").Quiet();
  }
  s.State(QpState::kRts);
}

// [4.3.read 4.3.silent] The key is checked now; a duplicate is never refused.
TEST(ResponderSequence, ADuplicateReadWhoseKeyIsGoneIsDropped) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=8 msn=1"});
  s.NextOutcome(EffectOutcome::kRemoteAccess);
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq").Quiet();
  s.State(QpState::kRts).Raises({});
}

// [4.3.silent]
TEST(ResponderSequence, AReplayThatCannotBeReadIsBrokenOffInSilence) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=3000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024",
           "READ_RESPONSE_LAST psn=000202 len=952 msn=1"});
  s.Receive("READ_REQUEST psn=000200 len=3000 va=1000 rkey=2a ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1").GatherFails().Quiet();
  s.State(QpState::kRts);
}

// [4.3.atomic] Atomics are never executed twice; the stored value answers.
TEST(ResponderSequence, ADuplicateAtomicRepeatsTheStoredValue) {
  Script s;
  s.Memory(10);
  s.Receive("FETCH_ADD psn=000200 va=1000 rkey=2a add=5 ackreq");
  s.Sends({"ATOMIC_ACK psn=000200 msn=1 original=a"});
  s.Receive("FETCH_ADD psn=000201 va=1000 rkey=2a add=1 ackreq");
  s.Sends({"ATOMIC_ACK psn=000201 msn=2 original=f"});
  s.Receive("FETCH_ADD psn=000200 va=1000 rkey=2a add=5 ackreq").Does("");
  s.Sends({"ATOMIC_ACK psn=000200 msn=2 original=a"});
}

// [4.3.atomic] Not found, dropped.
TEST(ResponderSequence, AnAtomicThatIsNoLongerStoredIsDropped) {
  Script s({.max_dest_rd_atomic = 1});
  s.Receive("FETCH_ADD psn=000200 va=1000 rkey=2a add=5 ackreq");
  s.Sends({"ATOMIC_ACK psn=000200 msn=1 original=0"});
  s.Receive("FETCH_ADD psn=000201 va=1000 rkey=2a add=5 ackreq");
  s.Sends({"ATOMIC_ACK psn=000201 msn=2 original=5"});
  s.Receive("FETCH_ADD psn=000200 va=1000 rkey=2a add=5 ackreq").Does("").Quiet();
  s.Receive("READ_REQUEST psn=000201 len=8 va=1000 rkey=2a ackreq").Does("").Quiet();
}

// [4.3.restart] A replayed READ comes first again, newer replies follow in PSN order, the ACK last.
TEST(ResponderSequence, AReplayedReadRestartsTheOrderOfReplies) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=976 msn=1"});
  s.Receive("READ_REQUEST psn=000202 len=8 va=5000 rkey=2a ackreq");
  s.Receive("WRITE_ONLY psn=000203 len=8 va=1000 rkey=2a ackreq");
  s.Receive("READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=3",
           "READ_RESPONSE_LAST psn=000201 len=976 msn=3",
           "READ_RESPONSE_ONLY psn=000202 len=8 msn=3", "ACK psn=000203 msn=3"});
}

// [4.3.restart] A READ under way that is asked for again starts over where it is asked.
TEST(ResponderSequence, AReadUnderWayStartsOverWhenAskedAgain) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=4000 va=1000 rkey=2a ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000201 len=1024");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000202 len=1024");
  s.Receive("READ_REQUEST psn=000201 len=2976 va=1400 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000201 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000202 len=1024",
           "READ_RESPONSE_LAST psn=000203 len=928 msn=1"});
}

// [4.3.store] A late duplicate of an answered READ does not keep its slot from a new request.
TEST(ResponderSequence, AReplayGivesWayToANewRequest) {
  Script s({.max_dest_rd_atomic = 1});
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000200 len=8 msn=1"});
  s.Receive("READ_REQUEST psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Receive("READ_REQUEST psn=000201 len=8 va=1000 rkey=2a ackreq").Result(PacketResult::kAccepted);
  s.Sends({"READ_RESPONSE_ONLY psn=000201 len=8 msn=2"});
}

}  // namespace
}  // namespace uroce::transport
