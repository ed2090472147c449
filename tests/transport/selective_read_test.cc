// SPDX-License-Identifier: Apache-2.0
// Selective repeat of what answers READs and atomics (pipeline/transport/selective_repeat.h).
#include <gtest/gtest.h>

#include "tests/transport/selective_script.h"

namespace uroce::transport {
namespace {

/// A READ of four packets from PSN 101 on has left, at 10 us.
void AskForFour(Script& s) {
  Agree(s);
  s.Post(Read(4096)).Sends({"READ_REQUEST psn=000101 len=4096 ackreq mark=21"});
}

// [sr.read] The second of four responses is lost: the others go to their place, and it alone is
// asked for, from its own address on.
TEST(SelectiveRead, ALostResponseIsAskedForAlone) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=41")
      .Does("place_send slot=1 at=2048 len=1024");
  s.Sends({"READ_REQUEST psn=000102 len=1024 ackreq mark=22"});
  EXPECT_EQ(s.sent().header.reth.va, 0x1000u + 1024);
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=41")
      .Does("place_send slot=1 at=3072 len=1024");
  s.Quiet().Nothing();
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=42")
      .Does("place_send slot=1 at=1024 len=1024");
  s.Completes({"1 READ SUCCESS"}).Deadline(kNever);
  EXPECT_EQ(s.counters().implied_nak_seq_err, 1u);
}

// [sr.read] Neighbours are asked for together, a run for each request.
TEST(SelectiveRead, ARunOfLostResponsesIsOneRequest) {
  Script s(Selective());
  Agree(s);
  s.Post(Read(8 * 1024)).Sends({"READ_REQUEST psn=000101 len=8192 ackreq mark=21"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000105 len=1024 mark=41");
  s.Receive("READ_RESPONSE_LAST psn=000108 len=1024 msn=2 mark=41");
  s.Sends({"READ_REQUEST psn=000101 len=2048 ackreq mark=22",
           "READ_REQUEST psn=000104 len=1024 ackreq mark=22",
           "READ_REQUEST psn=000106 len=2048 ackreq mark=22"});
}

// [sr.read] All of the first READ's responses are lost, and of what follows nothing is resent.
TEST(SelectiveRead, WhatFollowsIsTakenAheadOfItsTurn) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Write(8)).Post(FetchAdd(1)).Post(Read(512));
  s.Sends({"WRITE_ONLY psn=000105 len=8 ackreq mark=21",
           "FETCH_ADD psn=000106 add=1 ackreq mark=21",
           "READ_REQUEST psn=000107 len=512 ackreq mark=21"});
  s.Receive("ATOMIC_ACK psn=000106 original=7 msn=4 mark=41")
      .Does("place_original slot=3 at=0 len=8 value=7");
  s.Receive("READ_RESPONSE_ONLY psn=000107 len=512 msn=5 mark=41")
      .Does("place_send slot=4 at=0 len=512");
  s.Nothing().Sends({"READ_REQUEST psn=000101 len=4096 ackreq mark=22"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=5 mark=42");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=42");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=42");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=5 mark=42");
  s.Completes({"1 READ SUCCESS", "2 WRITE SUCCESS", "3 FETCH_ADD SUCCESS", "4 READ SUCCESS"});
}

// [sr.read 2.ack] Of what follows a READ its response says nothing.
TEST(SelectiveRead, WhatWasNotHeardOfIsNotComplete) {
  Script s(Selective());
  Agree(s);
  s.Post(Read(512)).Post(Send(0));
  s.Sends({"READ_REQUEST psn=000101 len=512 ackreq mark=21",
           "SEND_ONLY psn=000102 len=0 ackreq mark=21"});
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=512 msn=2 mark=41").Completes({"1 READ SUCCESS"});
  s.Receive("ACK psn=000102 msn=3 mark=41").Completes({"2 SEND SUCCESS"});
}

// [sr.read] An ACK behind a READ tells that its responses are lost; what it acknowledges is
// complete in its turn.
TEST(SelectiveRead, AnAckThatPassesOverAReadIsRemembered) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq mark=21"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=41");
  s.Receive("ACK psn=000105 msn=3 mark=41");
  s.Sends({"READ_REQUEST psn=000104 len=1024 ackreq mark=22"}).Nothing();
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=3 mark=42");
  s.Completes({"1 READ SUCCESS", "2 SEND SUCCESS"}).Deadline(kNever);
}

// [sr.read sr.round] A resend is not resent before its round is over.
TEST(SelectiveRead, AResendThatIsLostGoesAgainInTheNextRoundButOne) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=41");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq mark=22"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=42").Quiet();
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq mark=23"});
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=43");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq mark=24"});
}

// [sr.read sr.retry] However often it is asked for again, the ACK timeout alone counts.
TEST(SelectiveRead, ALostResponseCostsNoRetry) {
  ScriptConfig config = Selective();
  config.retry_count = 0;
  Script s(config);
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=41");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq mark=22"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=42").Quiet();
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq mark=23"});
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=43");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq mark=24"});
  s.At(10 * kUs + kTimeout - 1).State(QpState::kRts);
  s.At(10 * kUs + kTimeout).State(QpState::kErr);
  s.Completes({"1 READ RETRY_EXC_ERR", "2 SEND WR_FLUSH_ERR"});
}

// [sr.read] A request that the responder names as missing is a whole one: nothing of it was
// executed.
TEST(SelectiveRead, ALostRequestGoesAgainWhole) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Read(4096)).Sends({"READ_REQUEST psn=000105 len=4096 ackreq mark=21"});
  s.Post(Read(64)).Sends({"READ_REQUEST psn=000109 len=64 ackreq mark=21"});
  // Its first response is on its way, and is not taken for lost before the NAK behind it.
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=41");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=41").Completes({"1 READ SUCCESS"});
  s.Receive("NAK_SEQ psn=000105" + HoleText(0, 5) + " mark=41");
  s.Sends({"READ_REQUEST psn=000105 len=4096 ackreq mark=22",
           "READ_REQUEST psn=000109 len=64 ackreq mark=22"});
}

// [sr.read] Nothing before the PSN of the NAK goes again, though it is not answered yet: but what
// was lost on its way here.
TEST(SelectiveRead, ANakBehindLostResponsesSendsAgainFromItsPsnOn) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Send(8)).Post(Send(8));
  s.Sends(
      {"SEND_ONLY psn=000105 len=8 ackreq mark=21", "SEND_ONLY psn=000106 len=8 ackreq mark=21"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=41");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=41");
  s.Receive("NAK_SEQ psn=000105 msn=0 mark=41");
  s.Sends({"READ_REQUEST psn=000104 len=1024 ackreq mark=22",
           "SEND_ONLY psn=000105 len=8 ackreq mark=22",
           "SEND_ONLY psn=000106 len=8 ackreq mark=22"});
}

// [sr.read sr.rnr 3.2.rnr.read] The READ in front of a SEND that finds no receive work was not
// answered whole.
TEST(SelectiveRead, AnRnrNakBehindLostResponsesSendsAllAgainAfterTheWait) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000105 len=8 ackreq mark=21"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2 mark=41");
  s.Receive("RNR_NAK psn=000105 msn=2 timer=1 mark=41").Quiet().At(20'000);
  s.Sends({"READ_REQUEST psn=000102 len=3072 ackreq mark=23",
           "SEND_ONLY psn=000105 len=8 ackreq mark=23"});
}

// [sr.read] What cannot be right ahead of its turn is dropped, and asked for again.
TEST(SelectiveRead, AResponseThatDoesNotFitIsNotTakenEarly) {
  Script s(Selective());
  AskForFour(s);
  s.Post(FetchAdd(1)).Sends({"FETCH_ADD psn=000105 add=1 ackreq mark=21"});
  s.Receive("READ_RESPONSE_LAST psn=000103 len=1024 msn=2 mark=41").Does("");
  s.Receive("READ_RESPONSE_ONLY psn=000105 len=8 msn=3 mark=41").Does("");
  s.Receive("ATOMIC_ACK psn=000104 original=7 msn=3 mark=41").Does("");
  s.NextOutcome(EffectOutcome::kLocalProtection);
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=41");
  s.State(QpState::kRts).Nothing();
}

// [sr.probe] By its rest.
TEST(SelectiveRead, ProbesByTheOldestResponseOfARead) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=2 mark=41");
  s.At(110 * kUs - 1).Quiet();
  s.At(110 * kUs).Sends({"READ_REQUEST psn=000102 len=3072 ackreq mark=23"});
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=43");
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024 mark=43");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=43").Completes({"1 READ SUCCESS"});
}

// [sr.probe sr.read] The request, or all that answers it, is lost, or it is not its turn yet.
TEST(SelectiveRead, ProbesByAReadThatIsNotAnsweredYet) {
  Script s(Selective());
  AskForFour(s);
  s.Post(Read(4096)).Sends({"READ_REQUEST psn=000105 len=4096 ackreq mark=21"});
  s.At(110 * kUs).Sends({"READ_REQUEST psn=000101 len=4096 ackreq mark=22"});
}

// [sr.probe] What was asked for again is lost once more, and there is nothing that would tell.
TEST(SelectiveRead, AfterSilenceAsksAgainForWhatIsKnownToBeLost) {
  Script s(Selective());
  AskForFour(s);
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024 mark=41");
  s.Receive("READ_RESPONSE_LAST psn=000104 len=1024 msn=2 mark=41");
  s.Sends({"READ_REQUEST psn=000101 len=1024 ackreq mark=22",
           "READ_REQUEST psn=000103 len=1024 ackreq mark=22"});
  s.At(110 * kUs - 1).Quiet();
  s.At(110 * kUs).Sends({"READ_REQUEST psn=000101 len=1024 ackreq mark=23",
                         "READ_REQUEST psn=000103 len=1024 ackreq mark=23"});
}

// [sr.read] The responder has it in hand already.
TEST(SelectiveRead, AProbeByAReadThatIsNotAnsweredYetChangesNothing) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq mark=20");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq mark=21");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=41",
           "READ_RESPONSE_LAST psn=000201 len=1024 msn=1 mark=41"});
}

// [sr.read sr.answer] A part of a READ that was answered is answered by itself.
TEST(SelectiveRead, AResponderRepeatsAPartAlone) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=4096 ackreq mark=20");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=40",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024 mark=40",
           "READ_RESPONSE_MIDDLE psn=000202 len=1024 mark=40",
           "READ_RESPONSE_LAST psn=000203 len=1024 msn=1 mark=40"});
  s.Receive("READ_REQUEST psn=000201 va=1400 rkey=2a len=1024 ackreq mark=21")
      .Does("check_remote rkey=2a va=1400 len=1024");
  s.Sends({"READ_RESPONSE_MIDDLE psn=000201 len=1024 mark=41"});
  EXPECT_EQ(s.sent().remote.va, 0x1400u);
  s.Receive("READ_REQUEST psn=000203 va=1c00 rkey=2a len=1024 ackreq mark=21");
  s.Sends({"READ_RESPONSE_LAST psn=000203 len=1024 msn=1 mark=41"});
}

// [sr.read] In the midst of a reply, which then goes on where it was.
TEST(SelectiveRead, ARepeatedPartDoesNotStartTheReplyAnew) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=4096 ackreq mark=20");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=40");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000201 len=1024 mark=40");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1024 ackreq mark=21");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=41",
           "READ_RESPONSE_MIDDLE psn=000202 len=1024 mark=41",
           "READ_RESPONSE_LAST psn=000203 len=1024 msn=1 mark=41"});
}

// [sr.read] Two parts at once are one, with what lies between them; what was not sent yet comes
// anyway.
TEST(SelectiveRead, PartsAskedForTogetherAreRepeatedAsOne) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=5120 ackreq mark=20");
  for (const char* packet : {"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=40",
                             "READ_RESPONSE_MIDDLE psn=000201 len=1024 mark=40",
                             "READ_RESPONSE_MIDDLE psn=000202 len=1024 mark=40"}) {
    s.SendsNext(packet);
  }
  s.Receive("READ_REQUEST psn=000202 va=1800 rkey=2a len=2048 ackreq mark=21");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1024 ackreq mark=21");
  s.Receive("READ_REQUEST psn=000204 va=2000 rkey=2a len=1024 ackreq mark=21");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=41",
           "READ_RESPONSE_MIDDLE psn=000201 len=1024 mark=41",
           "READ_RESPONSE_MIDDLE psn=000202 len=1024 mark=41",
           "READ_RESPONSE_MIDDLE psn=000203 len=1024 mark=41",
           "READ_RESPONSE_LAST psn=000204 len=1024 msn=1 mark=41"});
}

// [sr.standard sr.read 4.3.silent] A part is no tail: of another make it is dropped, and so is one
// that is none of whole packets.
TEST(SelectiveRead, APartNeedsAMarkAndWholePackets) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=1024 msn=1",
           "READ_RESPONSE_LAST psn=000201 len=1024 msn=1"});
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1024 ackreq").Does("").Quiet();
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=1000 ackreq mark=20").Does("").Quiet();
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=0 ackreq mark=20").Does("").Quiet();
}

// [4.3.silent sr.read] The key has gone meanwhile: what was to be repeated is given up, the reply
// under way finds out by itself.
TEST(SelectiveRead, ARepeatThatCannotBeReadIsBrokenOffInSilence) {
  Script s(Selective());
  s.At(0).Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=4096 ackreq mark=20");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=40");
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000201 len=1024 mark=40");
  s.Receive("READ_REQUEST psn=000200 va=1000 rkey=2a len=2048 ackreq mark=21");
  s.SendsNext("READ_RESPONSE_FIRST psn=000200 len=1024 msn=1 mark=41").GatherFails();
  s.State(QpState::kRts);
  s.SendsNext("READ_RESPONSE_MIDDLE psn=000202 len=1024 mark=41").GatherFails();
  s.State(QpState::kErr).Sends({"NAK_REMOTE_ACCESS psn=000202 msn=1 mark=41"});
}

}  // namespace
}  // namespace uroce::transport
