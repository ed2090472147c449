// SPDX-License-Identifier: Apache-2.0
// Selective repeat of what answers READs and atomics (pipeline/transport/loss-recovery.md).
#include <gtest/gtest.h>

#include "tests/transport/script/selective_script.h"

namespace uroce::transport {
namespace {

/// A READ of four packets from PSN 101 on has left, at 10 us.
void AskForFour(Script& s) {
  MeasureRoundTrip(s);
  s.Post(Read(4096)).Sends({"READ_REQUEST psn=000101 len=4096 ackreq"});
}

/// The other responses come, and two SENDs are acknowledged, each sent after the answer before.
void TwoRounds(Script& s) {
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2");
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq"});
  s.Receive("ACK psn=000105 msn=3").Quiet();
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000106 len=0 ackreq"});
  s.Receive("ACK psn=000106 msn=4");
}

// [sr.read] The second of four responses is lost: the others go to their place, and it alone is
// asked for, from its own address on.
TEST(SelectiveRead, ALostResponseIsAskedForAlone) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024").Does("place_send slot=1 at=2048 len=1024");
  s.Sends({"READ_REQUEST psn=000102 len=1024 ackreq"});
  EXPECT_EQ(s.sent().header.reth.va, 0x1000u + 1024);
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2")
      .Does("place_send slot=1 at=3072 len=1024");
  s.Quiet().Nothing();
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024").Does("place_send slot=1 at=1024 len=1024");
  s.Completes({"1 READ SUCCESS"}).Deadline(kNever);
  EXPECT_EQ(s.counters().implied_nak_seq_err, 1u);
}

// [sr.read] Neighbours are asked for together, a run for each request.
TEST(SelectiveRead, ARunOfLostResponsesIsOneRequest) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Read(8 * 1024)).Sends({"READ_REQUEST psn=000101 len=8192 ackreq"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000105 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000108 len=1024 msn=2");
  s.Sends({"READ_REQUEST psn=000101 len=2048 ackreq", "READ_REQUEST psn=000104 len=1024 ackreq",
           "READ_REQUEST psn=000106 len=2048 ackreq"});
}

// [sr.read] All of the first READ's responses are lost, and of what follows nothing is resent.
TEST(SelectiveRead, WhatFollowsIsTakenAheadOfItsTurn) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Write(8)).Post(FetchAdd(1)).Post(Read(512));
  s.Sends({"WRITE_ONLY psn=000105 len=8 ackreq", "FETCH_ADD psn=000106 add=1 ackreq",
           "READ_REQUEST psn=000107 len=512 ackreq"});
  s.Receive("ATOMIC_ACK psn=000106 original=7 msn=4")
      .Does("place_original slot=3 at=0 len=8 value=7");
  s.Receive("READ_RESPONSE_ONLY psn=000107 len=512 msn=5").Does("place_send slot=4 at=0 len=512");
  s.Nothing().Sends({"READ_REQUEST psn=000101 len=4096 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=5");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=5");
  s.Completes({"1 READ SUCCESS", "2 WRITE SUCCESS", "3 FETCH_ADD SUCCESS", "4 READ SUCCESS"});
}

// [sr.read 2.ack] Of what follows a READ its response says nothing.
TEST(SelectiveRead, WhatWasNotHeardOfIsNotComplete) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Read(512)).Post(Send(0));
  s.Sends({"READ_REQUEST psn=000101 len=512 ackreq", "SEND_ONLY psn=000102 len=0 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=512 msn=2").Completes({"1 READ SUCCESS"});
  s.Receive("ACK psn=000102 msn=3").Completes({"2 SEND SUCCESS"});
}

// [sr.read] An ACK behind a READ tells that its responses are lost; what it acknowledges is
// complete in its turn.
TEST(SelectiveRead, AnAckThatPassesOverAReadIsRemembered) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("ACK psn=000105 msn=3");
  s.Sends({"READ_REQUEST psn=000104 len=1024 ackreq"}).Nothing();
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=3");
  s.Completes({"1 READ SUCCESS", "2 SEND SUCCESS"}).Deadline(kNever);
}

// [sr.read sr.round] A resend is not resent before its round is over.
TEST(SelectiveRead, AResendThatIsLostGoesAgainInTheNextRoundButOne) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq"});
  TwoRounds(s);
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq"});
}

// [sr.read sr.round] Of two that were asked for again the second comes: the first is lost once
// more.
TEST(SelectiveRead, AnAnswerShowsThatTheOneBeforeItIsLostOnceMore) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq", "READ_REQUEST psn=000103 len=1024 ackreq"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq"});
}

// [sr.read sr.retry] However often it is asked for again, the ACK timeout alone counts.
TEST(SelectiveRead, ALostResponseCostsNoRetry) {
  ScriptConfig config = Selective();
  config.retry_count = 0;
  Script s(config);
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq"});
  TwoRounds(s);
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq"});
  s.At(10 * kUs + kTimeout - 1).State(QpState::kRts);
  s.At(10 * kUs + kTimeout).State(QpState::kErr);
  s.Completes({"1 READ RETRY_EXC_ERR", "2 SEND WR_FLUSH_ERR", "3 SEND WR_FLUSH_ERR"});
}

// [sr.read] A request that the responder names as missing is a whole one: nothing of it was
// executed.
TEST(SelectiveRead, ALostRequestGoesAgainWhole) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Read(4096)).Sends({"READ_REQUEST psn=000105 len=4096 ackreq"});
  s.Post(Read(64)).Sends({"READ_REQUEST psn=000109 len=64 ackreq"});
  // Its first response is on its way, and is not taken for lost before the NAK behind it.
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2").Completes({"1 READ SUCCESS"});
  s.Receive("SELECTIVE_ACK psn=000105 msn=2 kept=4/5");
  s.Sends({"READ_REQUEST psn=000105 len=4096 ackreq"});
}

// [sr.read] Nothing before the PSN of the NAK goes again, though it is not answered yet: but what
// was lost on its way here.
TEST(SelectiveRead, ANakBehindLostResponsesSendsAgainFromItsPsnOn) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000105 len=8 ackreq", "SEND_ONLY psn=000106 len=8 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("NAK_SEQ psn=000105 msn=0");
  s.Sends({"READ_REQUEST psn=000104 len=1024 ackreq", "SEND_ONLY psn=000105 len=8 ackreq",
           "SEND_ONLY psn=000106 len=8 ackreq"});
}

// [sr.read sr.rnr 3.2.rnr.read] The READ in front of a SEND that finds no receive work was not
// answered whole.
TEST(SelectiveRead, AnRnrNakBehindLostResponsesSendsAllAgainAfterTheWait) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000105 len=8 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2");
  s.Receive("RNR_NAK psn=000105 msn=2 timer=1").Quiet().At(20'000);
  s.Sends({"READ_REQUEST psn=000102 len=3072 ackreq", "SEND_ONLY psn=000105 len=8 ackreq"});
}

// [sr.read] What cannot be right ahead of its turn is dropped, and asked for again.
TEST(SelectiveRead, AResponseThatDoesNotFitIsNotTakenEarly) {
  Script s(Selective());
  AskForFour(s);
  s.Post(FetchAdd(1)).Sends({"FETCH_ADD psn=000105 add=1 ackreq"});
  s.Receive("READ_RESPONSE_LAST psn=000103 len=1024 msn=2").Does("");
  s.Receive("READ_RESPONSE_ONLY psn=000105 len=8 msn=3").Does("");
  s.Receive("ATOMIC_ACK psn=000104 original=7 msn=3").Does("");
  s.NextOutcome(EffectOutcome::kLocalProtection);
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2");
  s.State(QpState::kRts).Nothing();
}

// [sr.probe] By its rest.
TEST(SelectiveRead, ProbesByTheOldestResponseOfARead) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2");
  s.At(110 * kUs - 1).Quiet();
  s.At(110 * kUs).Sends({"READ_REQUEST psn=000102 len=3072 ackreq"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2").Completes({"1 READ SUCCESS"});
}

// [sr.probe sr.read] The request, or all that answers it, is lost, or it is not its turn yet.
TEST(SelectiveRead, ProbesByAReadThatIsNotAnsweredYet) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Read(4096)).Sends({"READ_REQUEST psn=000105 len=4096 ackreq"});
  s.At(110 * kUs).Sends({"READ_REQUEST psn=000101 len=4096 ackreq"});
}

// [sr.probe] What was asked for again is lost once more, and there is nothing that would tell.
TEST(SelectiveRead, AfterSilenceAsksAgainForWhatIsKnownToBeLost) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq", "READ_REQUEST psn=000103 len=1024 ackreq"});
  s.At(110 * kUs - 1).Quiet();
  s.At(110 * kUs).Sends(
      {"READ_REQUEST psn=000101 len=1024 ackreq", "READ_REQUEST psn=000103 len=1024 ackreq"});
}

// [sr.read] The responder has it in hand already.
TEST(SelectiveRead, AProbeByAReadThatIsNotAnsweredYetChangesNothing) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=1024 msn=1"});
}

// [sr.read sr.answer] A part of a READ that was answered is answered by itself.
TEST(SelectiveRead, AResponderRepeatsAPartAlone) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=4096 ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024", "READ_RESPONSE_MIDDLE psn=000202 len=1024",
           "READ_RESPONSE_LAST psn=000203 len=1024 msn=1"});
  s.Receive("READ_REQUEST psn=000201 va=1400 rkey=2a len=1024 ackreq")
      .Does("check_remote rkey=2a va=1400 len=1024");
  s.Sends({"READ_RESPONSE_MIDDLE psn=000201 len=1024"});
  EXPECT_EQ(s.sent().remote.va, 0x1400u);
  s.Receive("READ_REQUEST psn=000203 va=1c00 rkey=2a len=1024 ackreq");
  s.Sends({"READ_RESPONSE_LAST psn=000203 len=1024 msn=1"});
}

// [sr.read] In the midst of a reply, which then goes on where it was.
TEST(SelectiveRead, ARepeatedPartDoesNotRestartTheReply) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=4096 ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000201 len=1024");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1024 ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000202 len=1024",
           "READ_RESPONSE_LAST psn=000203 len=1024 msn=1"});
}

// [sr.read] Two parts at once are one, with what lies between them; what was not sent yet comes
// anyway.
TEST(SelectiveRead, PartsAskedForTogetherAreRepeatedAsOne) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=5120 ackreq");
  for (const char* packet :
       {"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1", "READ_RESPONSE_MIDDLE psn=000201 len=1024",
        "READ_RESPONSE_MIDDLE psn=000202 len=1024"}) {
    s.SendsNext(packet);
  }
  s.Receive("READ_REQUEST psn=000202 va=1800 rkey=2a len=2048 ackreq");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1024 ackreq");
  s.Receive("READ_REQUEST psn=000204 va=2000 rkey=2a len=1024 ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024", "READ_RESPONSE_MIDDLE psn=000202 len=1024",
           "READ_RESPONSE_MIDDLE psn=000203 len=1024",
           "READ_RESPONSE_LAST psn=000204 len=1024 msn=1"});
}

// [sr.standard sr.read 4.3.silent] A part is no tail: without agreement it is dropped, and with it
// one that is none of whole packets.
TEST(SelectiveRead, APartNeedsAgreementAndWholePackets) {
  Script s({.selective_repeat = true});
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=1024 msn=1"});
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1024 ackreq").Does("").Quiet();
  s.Agree(true);
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1000 ackreq").Does("").Quiet();
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=0 ackreq").Does("").Quiet();
}

// [4.3.silent sr.read] The key has gone meanwhile: what was to be repeated is given up, the reply
// under way finds out by itself.
TEST(SelectiveRead, ARepeatThatCannotBeReadIsBrokenOffInSilence) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=4096 ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000201 len=1024");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1").GatherFails();
  s.State(QpState::kRts);
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000202 len=1024").GatherFails();
  s.State(QpState::kErr).Sends({"NAK_REMOTE_ACCESS psn=000202 msn=1"});
}

}  // namespace
}  // namespace uroce::transport
