// SPDX-License-Identifier: Apache-2.0
// Selective repeat between two ends of this make (pipeline/transport/selective_repeat.h). Marks are
// 0x20 and the round in requests, 0x40 and the round in responses; a hole stands where others have
// the MSN: its offset from the NAK's PSN times 4096, and its packets.
#include <gtest/gtest.h>

#include "tests/transport/selective_script.h"

namespace uroce::transport {
namespace {

// [sr.offer sr.standard] The responder is of another make: no mark after its first answer, and a
// sequence NAK with any MSN means go-back-N.
TEST(SelectiveRequester, OffersUntilAnAnswerWithoutAMark) {
  Script s(Selective());
  s.At(0)
      .Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000100 len=1024 mark=20",
              "WRITE_LAST psn=000101 len=1024 ackreq mark=20"});
  s.Receive("ACK psn=000101 msn=1").Completes({"0 WRITE SUCCESS"});
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000102 len=1024", "WRITE_LAST psn=000103 len=1024 ackreq"});
  s.Receive("NAK_SEQ psn=000102 msn=1")
      .Sends({"WRITE_FIRST psn=000102 len=1024", "WRITE_LAST psn=000103 len=1024 ackreq"});
  s.Receive("ACK psn=000103 msn=2 mark=40").Completes({"1 WRITE SUCCESS"});
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000104 len=0 ackreq"});
  EXPECT_FALSE(s.qp().selective());
}

// [sr.standard] XRC has none of it.
TEST(SelectiveRequester, XrcIsNeverMarked) {
  ScriptConfig config = Selective();
  config.service = wire::Service::kXrc;
  config.role = RcRole::kInitiator;
  Script s(config);
  s.At(0).Post(Send(0)).Sends({"XRC_SEND_ONLY psn=000100 len=0 srq=000000 ackreq"});
}

// [sr.alone sr.round] One packet of the hole each, and a NAK that names it again changes nothing
// until the round that follows has come back.
TEST(SelectiveRequester, SendsAgainWhatIsNamedAlone) {
  Script s(Selective());
  Agree(s);
  s.Post(Write(4096))
      .Sends({"WRITE_FIRST psn=000101 len=1024 mark=21", "WRITE_MIDDLE psn=000102 len=1024 mark=21",
              "WRITE_MIDDLE psn=000103 len=1024 mark=21",
              "WRITE_LAST psn=000104 len=1024 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000102" + HoleText(0, 1) + " mark=41")
      .Sends({"WRITE_MIDDLE psn=000102 len=1024 ackreq mark=22"});
  s.Receive("NAK_SEQ psn=000102" + HoleText(0, 1) + " mark=41").Quiet();
  s.Receive("NAK_SEQ psn=000102" + HoleText(0, 1) + " mark=42").Quiet();
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq mark=23"});
  s.Receive("NAK_SEQ psn=000102" + HoleText(0, 1) + " mark=43")
      .Sends({"WRITE_MIDDLE psn=000102 len=1024 ackreq mark=24"});
  s.Receive("ACK psn=000105 msn=3 mark=44").Completes({"1 WRITE SUCCESS", "2 SEND SUCCESS"});
}

// [sr.alone] Two holes, the second of two packets; what was acknowledged meanwhile does not go.
TEST(SelectiveRequester, SeveralHolesAreFilledInOrder) {
  Script s(Selective());
  Agree(s);
  s.Post(Write(6 * 1024));
  s.Sends({"WRITE_FIRST psn=000101 len=1024 mark=21", "WRITE_MIDDLE psn=000102 len=1024 mark=21",
           "WRITE_MIDDLE psn=000103 len=1024 mark=21", "WRITE_MIDDLE psn=000104 len=1024 mark=21",
           "WRITE_MIDDLE psn=000105 len=1024 mark=21",
           "WRITE_LAST psn=000106 len=1024 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(1, 1) + " mark=41");
  s.Receive("NAK_SEQ psn=000101" + HoleText(3, 2) + " mark=41");
  s.Receive("NAK_SEQ psn=000103" + HoleText(1, 2) + " mark=41");
  s.Sends({"WRITE_MIDDLE psn=000104 len=1024 mark=22",
           "WRITE_MIDDLE psn=000105 len=1024 ackreq mark=22"});
  s.Receive("ACK psn=000106 msn=2 mark=42").Completes({"1 WRITE SUCCESS"});
}

// [sr.hole] A hole that reaches behind what was sent, or is none, does no harm.
TEST(SelectiveRequester, AHoleBehindWhatWasSentIsCutOff) {
  Script s(Selective());
  Agree(s);
  s.Post(Write(1024)).Sends({"WRITE_ONLY psn=000101 len=1024 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(0, 4095) + " mark=41")
      .Sends({"WRITE_ONLY psn=000101 len=1024 ackreq mark=22"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(4095, 4095) + " mark=42").Quiet();
}

// [sr.retry] However often it is named: of retry_cnt 0 nothing is left to be spent but the ACK
// timeout, which no resend moves.
TEST(SelectiveRequester, WhatAHoleNamesCostsNoRetry) {
  ScriptConfig config = Selective();
  config.retry_count = 0;
  Script s(config);
  Agree(s);
  s.Post(Write(1024)).Sends({"WRITE_ONLY psn=000101 len=1024 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(0, 1) + " mark=41")
      .Sends({"WRITE_ONLY psn=000101 len=1024 ackreq mark=22"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(0, 1) + " mark=42").Quiet();
  s.Post(Write(0)).Sends({"WRITE_ONLY psn=000102 len=0 ackreq mark=23"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(0, 1) + " mark=43")
      .Sends({"WRITE_ONLY psn=000101 len=1024 ackreq mark=24"});
  s.At(10 * kUs + kTimeout - 1).Receive("NAK_SEQ psn=000101" + HoleText(0, 1) + " mark=44");
  s.State(QpState::kRts).At(10 * kUs + kTimeout).State(QpState::kErr);
  s.Completes({"1 WRITE RETRY_EXC_ERR", "2 WRITE WR_FLUSH_ERR"});
}

// [sr.window] Without a hole it is the NAK of any responder: all from its PSN on.
TEST(SelectiveRequester, GoesBackWhereNoHoleIsNamed) {
  Script s(Selective());
  Agree(s);
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000101 len=1024 mark=21",
              "WRITE_LAST psn=000102 len=1024 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000101 msn=0 mark=41")
      .Sends({"WRITE_FIRST psn=000101 len=1024 mark=23",
              "WRITE_LAST psn=000102 len=1024 ackreq "
              "mark=23"});
}

// [3.3.adaptive] Three round trips of 50 ms are longer than the attribute says.
TEST(SelectiveRequester, TheAckTimeoutGrowsWithTheRoundTrip) {
  constexpr int64_t kMs = 1'000'000;
  Script s(Selective());
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq mark=20"});
  s.At(50 * kMs).Receive("ACK psn=000100 msn=1 mark=40").Completes({"0 SEND SUCCESS"});
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=21"});
  s.At(200 * kMs - 1).Quiet();
  s.At(200 * kMs).Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=22"});
}

// [3.3.adaptive] But no longer than four times that: a requester may not expire later.
TEST(SelectiveRequester, TheAckTimeoutGrowsToFourTimesTheAttribute) {
  constexpr int64_t kMs = 1'000'000;
  Script s(Selective());
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq mark=20"});
  s.At(kTimeout - 1).Quiet();
  s.At(kTimeout).Sends({"SEND_ONLY psn=000100 len=0 ackreq mark=20"});
  s.At(150 * kMs).Receive("ACK psn=000100 msn=1 mark=40").Completes({"0 SEND SUCCESS"});
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=21"});
  s.At(150 * kMs + 4 * kTimeout - 1).Quiet();
  s.At(150 * kMs + 4 * kTimeout).Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=22"});
}

// [sr.probe] The last packet again after three round trips of 10 us each, at least 100 us, later
// and later; the ACK timeout comes all the same.
TEST(SelectiveRequester, ProbesWithTheLastPacketAfterSilence) {
  Script s(Selective());
  Agree(s);
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000101 len=1024 mark=21",
              "WRITE_LAST psn=000102 len=1024 ackreq mark=21"});
  s.At(110 * kUs - 1).Quiet();
  s.At(110 * kUs).Sends({"WRITE_LAST psn=000102 len=1024 ackreq mark=22"});
  s.At(310 * kUs - 1).Quiet();
  s.At(310 * kUs).Sends({"WRITE_LAST psn=000102 len=1024 ackreq mark=23"});
  EXPECT_EQ(s.counters().local_ack_timeout_err, 0u);
  s.Receive("NAK_SEQ psn=000101" + HoleText(0, 1) + " mark=43")
      .Sends({"WRITE_FIRST psn=000101 len=1024 ackreq mark=24"});
  s.Receive("ACK psn=000102 msn=2 mark=44").Completes({"1 WRITE SUCCESS"}).Deadline(kNever);
}

// [sr.answer sr.standard] No mark asked for, none given; the MSN of a NAK is the MSN.
TEST(SelectiveResponder, AnswersOthersAsAnyResponder) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000200 len=8 ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("WRITE_FIRST psn=000202 len=1024 total=4096").Does("");
  s.Sends({"NAK_SEQ psn=000201 msn=1"});
  s.Receive("WRITE_MIDDLE psn=000203 len=1024").Does("").Quiet();
}

// [sr.answer] Also of READs; the mark is that of the newest request.
TEST(SelectiveResponder, RepeatsTheRoundOfTheNewestRequest) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000200 len=8 ackreq mark=3f");
  s.Receive("READ_REQUEST psn=000201 len=8 ackreq mark=20");
  s.Sends({"READ_RESPONSE_ONLY psn=000201 len=8 msn=2 mark=40"});
  s.Receive("WRITE_ONLY psn=000202 len=8 ackreq").Sends({"ACK psn=000202 msn=3"});
}

// [sr.hole sr.place] A MIDDLE is lost; what follows is placed where it belongs, and not again.
TEST(SelectiveResponder, PlacesTheRestOfAWriteBehindAGap) {
  Script s(Selective());
  s.At(0).Receive("WRITE_FIRST psn=000200 va=1000 rkey=2a len=1024 total=5000 mark=20");
  s.Receive("WRITE_MIDDLE psn=000202 len=1024 mark=20")
      .Does("place_remote rkey=2a va=1800 len=1024 check=2952");
  s.Sends({"NAK_SEQ psn=000201" + HoleText(0, 1) + " mark=40"});
  s.Receive("WRITE_MIDDLE psn=000203 len=1024 mark=20")
      .Does("place_remote rkey=2a va=1c00 len=1024 check=1928");
  s.Quiet();
  s.Receive("WRITE_MIDDLE psn=000203 len=1024 mark=20").Result(PacketResult::kDuplicate).Does("");
  s.Receive("WRITE_MIDDLE psn=000201 len=1024 mark=21")
      .Does("place_remote rkey=2a va=1400 len=1024 check=3976");
  s.Sends({"ACK psn=000203 msn=0 mark=41"});
  s.Receive("WRITE_LAST psn=000204 len=904 ackreq mark=21")
      .Does("place_remote rkey=2a va=2000 len=904 check=904");
  s.Sends({"ACK psn=000204 msn=1 mark=41"});
}

// [sr.place sr.order] The lost packet is the last of a WRITE: the next WRITE is placed but for its
// own last packet, which comes once more.
TEST(SelectiveResponder, PlacesTheNextWriteButItsEnd) {
  Script s(Selective());
  s.At(0).Receive("WRITE_FIRST psn=000200 va=1000 rkey=2a len=1024 total=1025 mark=20");
  s.Receive("WRITE_FIRST psn=000202 va=8000 rkey=2b len=1024 total=3072 mark=20")
      .Does("place_remote rkey=2b va=8000 len=1024 check=3072");
  s.Receive("WRITE_MIDDLE psn=000203 len=1024 mark=20")
      .Does("place_remote rkey=2b va=8400 len=1024 check=2048");
  s.Receive("WRITE_LAST psn=000204 len=1024 ackreq mark=20").Does("");
  s.Sends({"NAK_SEQ psn=000201" + HoleText(0, 1) + " mark=40",
           "NAK_SEQ psn=000201" + HoleText(3, 1) + " mark=40"});
  s.Receive("WRITE_LAST psn=000201 len=1 ackreq mark=21")
      .Does("place_remote rkey=2a va=1400 len=1 check=1");
  s.Sends({"NAK_SEQ psn=000204" + HoleText(0, 1) + " mark=41"});
  s.Receive("WRITE_LAST psn=000204 len=1024 ackreq mark=21")
      .Does("place_remote rkey=2b va=8800 len=1024 check=1024");
  s.Sends({"ACK psn=000204 msn=2 mark=41"});
}

// [sr.order] Whatever else is behind the gap does nothing, and is named.
TEST(SelectiveResponder, ExecutesEverythingElseInItsTurn) {
  Script s(Selective());
  s.PostReceive().PostReceive();
  s.At(0).Receive("WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=4096 mark=20");
  s.Receive("SEND_ONLY psn=000206 len=8 ackreq mark=20").Does("");
  s.Receive("WRITE_ONLY_WITH_IMM psn=000202 len=8 imm=1 ackreq mark=20").Does("");
  s.Receive("READ_REQUEST psn=000203 len=8 ackreq mark=20").Does("");
  s.Receive("FETCH_ADD psn=000204 va=8 ackreq mark=20").Does("");
  s.Receive("WRITE_ONLY psn=000205 len=8 ackreq mark=20").Does("");
  s.Sends({"NAK_SEQ psn=000200" + HoleText(0, 1) + " mark=40",
           "NAK_SEQ psn=000200" + HoleText(2, 5) + " mark=40"});
  s.Nothing();
}

// [sr.window] The first behind the gap has to come again, as what follows will: that is go-back-N,
// with one NAK.
TEST(SelectiveResponder, FallsBackWhereNothingCanBePlaced) {
  for (const char* packet : {"SEND_ONLY psn=000201 len=8", "WRITE_ONLY psn=000201 len=8",
                             "WRITE_MIDDLE psn=000201 len=1024"}) {
    Script s(Selective());
    s.At(0).Receive(packet + std::string(" ackreq mark=20")).Does("");
    s.Sends({"NAK_SEQ psn=000200 msn=0 mark=40"});
    s.Receive("WRITE_FIRST psn=000202 va=8000 rkey=2b len=1024 total=4096 mark=20").Does("");
    s.Receive("SEND_ONLY psn=000203 len=8 ackreq mark=20").Quiet();
  }
}

// [sr.window sr.hole] Whatever the MSN is: none of it may look like a hole.
TEST(SelectiveResponder, ANakThatNamesNoHoleHasNoMsn) {
  Script s(Selective());
  s.At(0)
      .Receive("WRITE_ONLY psn=000200 len=8 ackreq mark=20")
      .Sends({"ACK psn=000200 msn=1 mark=40"});
  s.Receive("SEND_ONLY psn=000202 len=8 ackreq mark=20");
  s.Sends({"NAK_SEQ psn=000201 msn=0 mark=40"});
}

// [sr.window] The NAK, or what it asked for, may be lost: it goes once a round.
TEST(SelectiveResponder, ReportsAGapAgainInANewRound) {
  Script s(Selective());
  s.At(0).Receive("SEND_ONLY psn=000201 len=8 ackreq mark=20");
  s.Sends({"NAK_SEQ psn=000200 msn=0 mark=40"});
  s.Receive("SEND_ONLY psn=000202 len=8 ackreq mark=20").Quiet();
  s.Receive("SEND_ONLY psn=000201 len=8 ackreq mark=21");
  s.Sends({"NAK_SEQ psn=000200 msn=0 mark=41"});
}

// [sr.window sr.retry] In the round after it has gone back a requester believes the same NAK again.
TEST(SelectiveRequester, GoesBackOnceARound) {
  Script s(Selective());
  Agree(s);
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000101 msn=0 mark=41");
  s.Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=23"});
  s.Receive("NAK_SEQ psn=000101 msn=0 mark=41").Quiet();
  s.Receive("NAK_SEQ psn=000101 msn=0 mark=43");
  s.Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=25"});
}

// [sr.hole] But the end of a WRITE is named.
TEST(SelectiveResponder, NamesTheLostPacketInFrontOfTheEndOfAWrite) {
  Script s(Selective());
  s.At(0).Receive("WRITE_FIRST psn=000200 va=1000 rkey=2a len=1024 total=3072 mark=20");
  s.Receive("WRITE_LAST psn=000202 len=1024 ackreq mark=20").Does("");
  s.Sends({"NAK_SEQ psn=000201" + HoleText(0, 2) + " mark=40"});
}

// [sr.key] The place is refused: the packet counts as missing, and its turn decides.
TEST(SelectiveResponder, WhatMayNotBeWrittenIsRefusedInItsTurn) {
  Script s(Selective());
  s.At(0).NextOutcome(EffectOutcome::kRemoteAccess);
  s.Receive("WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=3072 mark=20");
  s.Sends({"NAK_SEQ psn=000200" + HoleText(0, 2) + " mark=40"}).State(QpState::kRts);
  s.Receive("WRITE_ONLY psn=000200 len=0 mark=20");
  s.NextOutcome(EffectOutcome::kRemoteAccess);
  s.Receive("WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=3072 mark=20");
  s.State(QpState::kErr).Sends({"NAK_REMOTE_ACCESS psn=000201 msn=1 mark=40"});
}

// [sr.key] Without the right of the queue pair nothing is placed.
TEST(SelectiveResponder, PlacesNothingWithoutTheRight) {
  ScriptConfig config = Selective();
  config.remote_access = false;
  Script s(config);
  s.At(0).Receive("WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=3072 mark=20").Does("");
}

// [sr.sequence] The packet that fills the gap is no end of a message, but a WRITE was announced
// behind it.
TEST(SelectiveResponder, RefusesAWriteThatBeginsInTheMidstOfAMessage) {
  Script s(Selective());
  s.PostReceive();
  s.At(0).Receive("WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=3072 mark=20");
  s.Sends({"NAK_SEQ psn=000200" + HoleText(0, 1) + " mark=40"});
  s.Receive("SEND_FIRST psn=000200 len=1024 mark=20").State(QpState::kErr);
  s.Sends({"NAK_INVALID_REQUEST psn=000201 msn=0 mark=40"});
}

// [sr.window] So far ahead that no bit is left for it.
TEST(SelectiveResponder, BehindTheWindowAGapIsAGap) {
  Script s(Selective());
  s.At(0).Receive("WRITE_FIRST psn=000a00 va=8000 rkey=2b len=1024 total=3072 mark=20").Does("");
  s.Sends({"NAK_SEQ psn=000200 msn=0 mark=40"});
  s.Receive("WRITE_MIDDLE psn=000a01 len=1024 mark=20").Quiet();
}

// [sr.hole] A new round brings all holes to mind again: the NAK, or what answered it, may be lost.
TEST(SelectiveResponder, NamesHolesAgainInANewRound) {
  Script s(Selective());
  s.At(0).Receive("WRITE_FIRST psn=000200 va=1000 rkey=2a len=1024 total=9000 mark=20");
  s.Receive("WRITE_MIDDLE psn=000202 len=1024 mark=20");
  s.Receive("WRITE_MIDDLE psn=000204 len=1024 mark=20");
  s.Sends({"NAK_SEQ psn=000201" + HoleText(0, 1) + " mark=40",
           "NAK_SEQ psn=000201" + HoleText(2, 1) + " mark=40"});
  s.Receive("WRITE_MIDDLE psn=000205 len=1024 mark=20").Quiet();
  s.Receive("WRITE_MIDDLE psn=000206 len=1024 mark=21");
  s.Sends({"NAK_SEQ psn=000201" + HoleText(0, 1) + " mark=41",
           "NAK_SEQ psn=000201" + HoleText(2, 1) + " mark=41"});
}

// [sr.rnr] The SEND is not taken; the WRITE behind it is dropped without a word, as ever.
TEST(SelectiveResponder, NamesNothingBehindAnRnrNak) {
  Script s(Selective());
  s.At(0).Receive("SEND_ONLY psn=000200 len=8 ackreq mark=20");
  s.Receive("WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=3072 mark=20").Does("");
  s.Sends({"RNR_NAK psn=000200 msn=0 timer=12 mark=40"}).Quiet();
}

// [sr.rnr] The requester forgets what was named, and sends all again after the wait.
TEST(SelectiveRequester, SendsAllAgainAfterAnRnrWait) {
  Script s(Selective());
  Agree(s);
  s.Post(Send(0)).Post(Write(1024)).Post(Write(1024));
  s.Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=21",
           "WRITE_ONLY psn=000102 len=1024 ackreq mark=21",
           "WRITE_ONLY psn=000103 len=1024 ackreq mark=21"});
  s.Receive("NAK_SEQ psn=000101" + HoleText(1, 1) + " mark=41");
  s.Receive("RNR_NAK psn=000101 timer=1 mark=41").Quiet();
  s.Receive("NAK_SEQ psn=000101" + HoleText(1, 1) + " mark=41").Quiet();
  s.At(30 * kUs).Sends({"SEND_ONLY psn=000101 len=0 ackreq mark=23",
                        "WRITE_ONLY psn=000102 len=1024 ackreq mark=23",
                        "WRITE_ONLY psn=000103 len=1024 ackreq mark=23"});
}

}  // namespace
}  // namespace uroce::transport
