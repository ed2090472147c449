// SPDX-License-Identifier: Apache-2.0
// Selective repeat between two ends that have agreed to it (pipeline/transport/loss-recovery.md).
#include <gtest/gtest.h>

#include "tests/transport/script/selective_script.h"

namespace uroce::transport {
namespace {

/// Four packets of one WRITE have left.
void SendFour(Script& s) {
  MeasureRoundTrip(s);
  s.Post(Write(4096))
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_MIDDLE psn=000102 len=1024",
              "WRITE_MIDDLE psn=000103 len=1024", "WRITE_LAST psn=000104 len=1024 ackreq"});
}

// ---- requester ----

// [sr.standard] Of a peer that has not agreed a sequence NAK means go-back-N, and no probe is sent.
TEST(SelectiveRequester, WithoutAgreementGoesBackN) {
  Script s({.selective_repeat = true});
  s.At(0)
      .Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000100 len=1024", "WRITE_LAST psn=000101 len=1024 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0")
      .Sends({"WRITE_FIRST psn=000100 len=1024", "WRITE_LAST psn=000101 len=1024 ackreq"});
  s.At(kTimeout - 1).Quiet();
  EXPECT_FALSE(s.qp().selective());
  EXPECT_EQ(s.counters().tail_loss_probes, 0u);
}

// [sr.standard] An end that does not offer it takes a selective acknowledgement for no answer.
TEST(SelectiveRequester, WhatIsNotOfferedIsNotUnderstood) {
  Script s;
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000100 msn=0 kept=/1").Result(PacketResult::kMalformed).Quiet();
}

// [sr.alone sr.round] What is missing goes again alone, and when it is missing once more, not
// before something sent in a later round has arrived.
TEST(SelectiveRequester, SendsAgainWhatIsMissingAlone) {
  Script s(Selective());
  SendFour(s);
  s.Receive("SELECTIVE_ACK psn=000102 msn=1 kept=1-2/3")
      .Sends({"WRITE_MIDDLE psn=000102 len=1024 ackreq"});
  EXPECT_TRUE(s.sent().retransmission);
  s.Receive("SELECTIVE_ACK psn=000102 msn=1 kept=1-2/3").Quiet();
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000105 len=0 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000102 msn=1 kept=1-3/4").Quiet();
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000106 len=0 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000102 msn=1 kept=1-4/5")
      .Sends({"WRITE_MIDDLE psn=000102 len=1024 ackreq"});
  s.Receive("ACK psn=000106 msn=4")
      .Completes({"1 WRITE SUCCESS", "2 SEND SUCCESS", "3 SEND SUCCESS"});
}

// [sr.round] Of two that were sent again the second arrives: the first is lost once more.
TEST(SelectiveRequester, AResendThatArrivesShowsThatTheOneBeforeItIsLost) {
  Script s(Selective());
  SendFour(s);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1,3/4")
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_MIDDLE psn=000103 len=1024 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1-3/4")
      .Sends({"WRITE_FIRST psn=000101 len=1024 ackreq"});
}

// [sr.alone] What arrives late after all is not sent again.
TEST(SelectiveRequester, WhatIsKeptMeanwhileDoesNotGoAgain) {
  Script s(Selective());
  SendFour(s);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=3/4");
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1,3/4");
  s.Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_MIDDLE psn=000103 len=1024 ackreq"});
}

// [sr.alone sr.order] SENDs, READs and atomics alike.
TEST(SelectiveRequester, EveryKindOfRequestIsSentAgainAlone) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Send(8)).Post(Read(2048)).Post(FetchAdd(1)).Post(Write(8));
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq", "READ_REQUEST psn=000102 len=2048 ackreq",
           "FETCH_ADD psn=000104 add=1 ackreq", "WRITE_ONLY psn=000105 len=8 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=4/5");
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq", "READ_REQUEST psn=000102 len=2048 ackreq",
           "FETCH_ADD psn=000104 add=1 ackreq"});
}

// [sr.map] A map that speaks of what was never sent, or is none, does no harm.
TEST(SelectiveRequester, AMapBehindWhatWasSentIsCutOff) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Write(1024)).Sends({"WRITE_ONLY psn=000101 len=1024 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=5/900")
      .Sends({"WRITE_ONLY psn=000101 len=1024 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000102 msn=1 kept=/1").Result(PacketResult::kGhost);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1").Result(PacketResult::kMalformed);
  s.Nothing().Quiet();
}

// [sr.retry] However often it is named: of retry_cnt 0 nothing is left to be spent but the ACK
// timeout, which no resend moves.
TEST(SelectiveRequester, WhatIsSentAgainAloneCostsNoRetry) {
  ScriptConfig config = Selective();
  config.retry_count = 0;
  Script s(config);
  MeasureRoundTrip(s);
  s.Post(Write(1024)).Sends({"WRITE_ONLY psn=000101 len=1024 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=/1")
      .Sends({"WRITE_ONLY psn=000101 len=1024 ackreq"});
  s.Post(Write(0)).Sends({"WRITE_ONLY psn=000102 len=0 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1/2").Quiet();
  s.At(10 * kUs + kTimeout - 1).Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1/2");
  s.State(QpState::kRts).At(10 * kUs + kTimeout).State(QpState::kErr);
  s.Completes({"1 WRITE RETRY_EXC_ERR", "2 WRITE WR_FLUSH_ERR"});
}

// [sr.nak] A responder that sends no maps keeps nothing: it is answered as any other.
TEST(SelectiveRequester, GoesBackWhereNoMapComes) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
  s.Receive("NAK_SEQ psn=000101 msn=1")
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
}

// [sr.nak] Of one that sends maps a sequence NAK names one packet.
TEST(SelectiveRequester, OfAResponderWithMapsANakNamesOnePacket) {
  Script s(Selective());
  SendFour(s);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1/2");
  s.Receive("NAK_SEQ psn=000101 msn=1").Sends({"WRITE_FIRST psn=000101 len=1024 ackreq"});
  s.Receive("NAK_SEQ psn=000103 msn=1").Sends({"WRITE_MIDDLE psn=000103 len=1024 ackreq"});
}

// [sr.learn] A map comes only from one who has heard of this end.
TEST(SelectiveRequester, AMapIsAgreementEnough) {
  Script s({.selective_repeat = true});
  s.At(0)
      .Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000100 len=1024", "WRITE_LAST psn=000101 len=1024 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000100 msn=0 kept=1/2")
      .Sends({"WRITE_FIRST psn=000100 len=1024 ackreq"});
  EXPECT_TRUE(s.qp().selective());
}

// [sr.learn sr.standard] The agreement ends in the midst: what is missing comes by the ACK timeout.
TEST(SelectiveRequester, WithoutAgreementAnyMoreTheAckTimeoutRecovers) {
  Script s(Selective());
  SendFour(s);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1/2");
  s.Agree(false).Quiet();
  EXPECT_FALSE(s.qp().selective());
  s.At(10 * kUs + kTimeout)
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_MIDDLE psn=000102 len=1024",
              "WRITE_MIDDLE psn=000103 len=1024", "WRITE_LAST psn=000104 len=1024 ackreq"});
}

// [sr.window] Nothing behind a map of the whole window is kept; READs go again whole.
TEST(SelectiveRequester, SendsAllAgainBehindAMapOfTheWholeWindow) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Read(1 << 20)).Post(Read(1 << 20)).Post(Read(1 << 20)).Post(Send(0));
  s.Sends({"READ_REQUEST psn=000101 len=1048576 ackreq",
           "READ_REQUEST psn=000501 len=1048576 ackreq",
           "READ_REQUEST psn=000901 len=1048576 ackreq", "SEND_ONLY psn=000d01 len=0 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1024-2047/2048");
  s.Sends({"READ_REQUEST psn=000101 len=1048576 ackreq",
           "READ_REQUEST psn=000901 len=1048576 ackreq", "SEND_ONLY psn=000d01 len=0 ackreq"});
}

// [3.3.adaptive] Three round trips of 50 ms are longer than the attribute says.
TEST(SelectiveRequester, TheAckTimeoutGrowsWithTheRoundTrip) {
  constexpr int64_t kMs = 1'000'000;
  Script s(Selective());
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq"});
  s.At(50 * kMs).Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"});
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000101 len=0 ackreq"});
  s.At(200 * kMs - 1).Quiet();
  s.At(200 * kMs).Sends({"SEND_ONLY psn=000101 len=0 ackreq"});
}

// [3.3.adaptive] But no longer than four times that: a requester may not expire later.
TEST(SelectiveRequester, TheAckTimeoutGrowsToFourTimesTheAttribute) {
  constexpr int64_t kMs = 1'000'000;
  Script s(Selective());
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq"});
  s.At(kTimeout - 1).Quiet();
  s.At(kTimeout).Sends({"SEND_ONLY psn=000100 len=0 ackreq"});
  s.At(kTimeout + 100 * kMs).Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"});
  s.Post(Send(0)).Sends({"SEND_ONLY psn=000101 len=0 ackreq"});
  s.At(5 * kTimeout + 100 * kMs - 1);
  EXPECT_EQ(s.counters().local_ack_timeout_err, 1u);
  s.At(5 * kTimeout + 100 * kMs);
  EXPECT_EQ(s.counters().local_ack_timeout_err, 2u);
}

// [sr.probe] The last packet again after three round trips of 10 us each, at least 100 us, later
// and later; the ACK timeout comes all the same.
TEST(SelectiveRequester, ProbesWithTheLastPacketAfterSilence) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
  s.At(110 * kUs - 1).Quiet();
  s.At(110 * kUs).Sends({"WRITE_LAST psn=000102 len=1024 ackreq"});
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kTailLossProbe);
  s.At(310 * kUs - 1).Quiet();
  s.At(310 * kUs).Sends({"WRITE_LAST psn=000102 len=1024 ackreq"});
  EXPECT_EQ(s.counters().local_ack_timeout_err, 0u);
  EXPECT_EQ(s.counters().tail_loss_probes, 2u);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1/2")
      .Sends({"WRITE_FIRST psn=000101 len=1024 ackreq"});
  s.Receive("ACK psn=000102 msn=2").Completes({"1 WRITE SUCCESS"}).Deadline(kNever);
}

// [sr.probe.heard]
TEST(SelectiveRequester, DoesNotProbeWhileReceivedPacketsWait) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
  s.At(110 * kUs - 1);
  const Nanos due = s.qp().NextDeadline();
  s.qp().OnDeadline(Nanos(500 * kUs), false);
  s.Quiet();
  EXPECT_EQ(s.qp().NextDeadline(), due);
  EXPECT_EQ(s.counters().tail_loss_probes, 0u);
  s.qp().OnDeadline(Nanos(500 * kUs), true);
  s.Sends({"WRITE_LAST psn=000102 len=1024 ackreq"});
}

// [sr.probe sr.retry] Behind an ACK timeout too: captures tell a retransmission that costs no retry
// from the one that did.
TEST(SelectiveRequester, AProbeBehindATimeoutIsToldAsAProbeThatCostsNothing) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Write(2048))
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
  constexpr int64_t kTimedOut = 10 * kUs + kTimeout;
  for (int64_t at = 110 * kUs; at < kTimedOut; at = 2 * at + 100 * kUs) {
    s.At(at);
    while (s.qp().HasPacket()) s.SendsNext("WRITE_LAST psn=000102 len=1024 ackreq");
  }
  const uint64_t probes = s.counters().tail_loss_probes;
  s.At(kTimedOut).Sends(
      {"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kAckTimeout);
  EXPECT_EQ(s.sent().resend.number, 1);
  EXPECT_EQ(s.counters().local_ack_timeout_err, 1u);
  EXPECT_EQ(s.counters().tail_loss_probes, probes);
  s.Receive("NAK_SEQ psn=000101 msn=1")
      .Sends({"WRITE_FIRST psn=000101 len=1024", "WRITE_LAST psn=000102 len=1024 ackreq"});
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kSequenceNak);
  EXPECT_EQ(s.sent().resend.number, 0) << "the timeout has paid";
  s.At(kTimedOut + 100 * kUs).Sends({"WRITE_LAST psn=000102 len=1024 ackreq"});
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kTailLossProbe);
  EXPECT_EQ(s.sent().resend.number, 0);
  EXPECT_EQ(s.counters().tail_loss_probes, probes + 1);
  EXPECT_EQ(s.counters().local_ack_timeout_err, 1u);
}

// [sr.alone 3.3.timeout] What goes again after a timeout, and what a map names meanwhile, are told
// apart.
TEST(SelectiveRequester, EachResendIsToldWithItsOwnCause) {
  Script s(Selective());
  SendFour(s);
  s.At(10 * kUs + kTimeout).SendsNext("WRITE_FIRST psn=000101 len=1024");
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kAckTimeout);
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=1/2");
  s.SendsNext("WRITE_FIRST psn=000101 len=1024 ackreq");
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kSelectiveAck);
  s.SendsNext("WRITE_MIDDLE psn=000102 len=1024");
  EXPECT_EQ(s.sent().resend.cause, ResendCause::kAckTimeout);
  EXPECT_EQ(s.sent().resend.number, 1);
}

// [sr.rnr] The requester forgets what was named, and sends all again after the wait.
TEST(SelectiveRequester, SendsAllAgainAfterAnRnrWait) {
  Script s(Selective());
  MeasureRoundTrip(s);
  s.Post(Send(0)).Post(Write(1024)).Post(Write(1024));
  s.Sends({"SEND_ONLY psn=000101 len=0 ackreq", "WRITE_ONLY psn=000102 len=1024 ackreq",
           "WRITE_ONLY psn=000103 len=1024 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=2/3");
  s.Receive("RNR_NAK psn=000101 timer=1").Quiet();
  s.Receive("SELECTIVE_ACK psn=000101 msn=1 kept=2/3").Quiet();
  s.At(30 * kUs).Sends({"SEND_ONLY psn=000101 len=0 ackreq",
                        "WRITE_ONLY psn=000102 len=1024 ackreq",
                        "WRITE_ONLY psn=000103 len=1024 ackreq"});
}

// [sr.xrc] The map of an extended connection has its own opcode.
TEST(SelectiveRequester, AnExtendedConnectionRepeatsSelectively) {
  ScriptConfig config = Selective();
  config.service = wire::Service::kXrc;
  config.role = RcRole::kInitiator;
  Script s(config);
  s.At(0).Post(Write(2048));
  s.Sends({"XRC_WRITE_FIRST psn=000100 len=1024 srq=000000",
           "XRC_WRITE_LAST psn=000101 len=1024 srq=000000 ackreq"});
  s.Receive("SELECTIVE_ACK psn=000100 msn=0 kept=1/2");
  s.Sends({"XRC_WRITE_FIRST psn=000100 len=1024 srq=000000 ackreq"});
}

// [sr.xrc sr.read] A READ that is asked for in part names its own SRQ, not that of what left last.
TEST(SelectiveRequester, AnExtendedConnectionAsksForAPartWithTheSrqOfTheRead) {
  ScriptConfig config = Selective();
  config.service = wire::Service::kXrc;
  config.role = RcRole::kInitiator;
  Script s(config);
  SendWork read = Read(2048);
  SendWork write = Write(8);
  read.xrc_srqn = 0x123;
  write.xrc_srqn = 0x456;
  s.At(0).Post(read).Post(write);
  s.Sends({"XRC_READ_REQUEST psn=000100 len=2048 srq=000123 ackreq",
           "XRC_WRITE_ONLY psn=000102 len=8 srq=000456 ackreq"});
  s.Receive("XRC_READ_RESPONSE_LAST psn=000101 len=1024 msn=1");
  s.Sends({"XRC_READ_REQUEST psn=000100 len=1024 srq=000123 ackreq"});
}

// ---- responder ----

// [sr.standard] A peer that has not agreed gets one NAK a gap, and nothing is kept.
TEST(SelectiveResponder, AnswersOthersAsAnyResponder) {
  Script s({.selective_repeat = true});
  s.At(0).Receive("WRITE_ONLY psn=000200 len=8 ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("WRITE_FIRST psn=000202 len=1024 total=4096").Does("");
  s.Sends({"NAK_SEQ psn=000201 msn=1"});
  s.Receive("WRITE_MIDDLE psn=000203 len=1024").Does("").Quiet();
}

// [sr.keep sr.order sr.map] A MIDDLE is lost: what follows is kept, told of, and executed behind it
// in its turn.
TEST(SelectiveResponder, ExecutesTheRestOfAWriteBehindTheHoleThatIsFilled) {
  Script s(Selective());
  s.At(0).Receive("WRITE_FIRST psn=000200 va=1000 rkey=2a len=1024 total=4000");
  s.Receive("WRITE_MIDDLE psn=000202 len=1024").Does("keep").Result(PacketResult::kKept);
  s.Sends({"SELECTIVE_ACK psn=000201 msn=0 kept=1/2", "NAK_SEQ psn=000201 msn=0"});
  s.Receive("WRITE_LAST psn=000203 len=928 ackreq").Does("keep");
  s.Sends({"SELECTIVE_ACK psn=000201 msn=0 kept=1-2/3"});
  s.Receive("WRITE_MIDDLE psn=000202 len=1024").Result(PacketResult::kDuplicate).Does("");
  s.Sends({"SELECTIVE_ACK psn=000201 msn=0 kept=1-2/3"});
  s.Receive("WRITE_MIDDLE psn=000201 len=1024")
      .Does("place_remote rkey=2a va=1400 len=1024 check=2976");
  s.ThenDoes({"place_remote rkey=2a va=1800 len=1024 check=1952",
              "place_remote rkey=2a va=1c00 len=928 check=928"});
  s.Sends({"ACK psn=000203 msn=1"});
  EXPECT_EQ(s.counters().kept_out_of_order, 2u);
}

// [sr.order] Nothing of a later message happens before an earlier one is whole: WRITEs, SENDs,
// immediates, READs and atomics.
TEST(SelectiveResponder, ExecutesEverythingInItsTurn) {
  Script s(Selective());
  s.PostReceive().PostReceive();
  const Texts ahead = {"WRITE_FIRST psn=000201 va=8000 rkey=2b len=1024 total=1032",
                       "WRITE_LAST psn=000202 len=8 ackreq",
                       "WRITE_ONLY_WITH_IMM psn=000203 va=9000 rkey=2b len=8 imm=1 ackreq",
                       "READ_REQUEST psn=000204 va=1000 rkey=2a len=2048 ackreq",
                       "FETCH_ADD psn=000206 va=8 rkey=2a add=1 ackreq",
                       "SEND_ONLY psn=000207 len=8 ackreq"};
  s.At(0);
  for (const std::string& packet : ahead) s.Receive(packet).Does("keep").Nothing();
  s.Sends({"SELECTIVE_ACK psn=000200 msn=0 kept=1-7/8", "NAK_SEQ psn=000200 msn=0"});
  s.Receive("WRITE_ONLY psn=000200 va=8000 rkey=2b len=8 ackreq")
      .Does("place_remote rkey=2b va=8000 len=8 check=8");
  s.ThenDoes({"place_remote rkey=2b va=8000 len=1024 check=1032",
              "place_remote rkey=2b va=8400 len=8 check=8",
              "place_remote rkey=2b va=9000 len=8 check=8", "check_remote rkey=2a va=1000 len=2048",
              "fetch_add rkey=2a va=8 len=8 swap_add=1", "place_receive slot=1 at=0 len=8"});
  s.Completes({"0 RECEIVE_WRITE SUCCESS len=8 imm=00000001", "1 RECEIVE SUCCESS len=8"});
}

// [sr.map sr.nak] Two gaps: the responder reports the second when the first is filled.
TEST(SelectiveResponder, TellsOfTheNextHole) {
  Script s(Selective());
  s.At(0);
  s.Receive("WRITE_ONLY psn=000201 len=8 ackreq").Receive("WRITE_ONLY psn=000203 len=8 ackreq");
  s.Sends({"SELECTIVE_ACK psn=000200 msn=0 kept=1,3/4", "NAK_SEQ psn=000200 msn=0"});
  s.Receive("WRITE_ONLY psn=000200 len=8 ackreq")
      .ThenDoes({"place_remote rkey=0 va=0 len=8 check=8"});
  s.Sends({"SELECTIVE_ACK psn=000202 msn=2 kept=1/2", "NAK_SEQ psn=000202 msn=2"});
}

// [sr.budget] What the shell has no room for is missing, and is taken when it comes again.
TEST(SelectiveResponder, WhatIsNotKeptMustComeAgain) {
  Script s(Selective());
  s.At(0).NextOutcome(EffectOutcome::kNotKept).Receive("WRITE_ONLY psn=000201 len=8 ackreq");
  s.Sends({"SELECTIVE_ACK psn=000200 msn=0 kept=/2", "NAK_SEQ psn=000200 msn=0"});
  EXPECT_EQ(s.counters().out_of_sequence, 1u);
  s.Receive("WRITE_ONLY psn=000200 len=8 ackreq").ThenDoes({});
  s.Sends({"SELECTIVE_ACK psn=000201 msn=1 kept=/1", "NAK_SEQ psn=000201 msn=1"});
  s.Receive("WRITE_ONLY psn=000201 len=8 ackreq").Sends({"ACK psn=000201 msn=2"});
}

// [sr.window] So far ahead that no bit is left for it, or with responses that reach so far.
TEST(SelectiveResponder, BehindTheWindowNothingIsKept) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000a00 len=8").Does("");
  s.Sends({"SELECTIVE_ACK psn=000200 msn=0 kept=/2048", "NAK_SEQ psn=000200 msn=0"});
  s.Receive("READ_REQUEST psn=000202 len=2097152 ackreq").Does("");
  s.Receive("READ_REQUEST psn=000202 len=2095104 ackreq").Does("keep");
}

// [sr.window] With the least path MTU the map is as long as a packet may be.
TEST(SelectiveResponder, TheMapFitsThePathMtu) {
  ScriptConfig config = Selective();
  config.path_mtu = 256;
  Script s(config);
  s.At(0).Receive("WRITE_ONLY psn=0009e0 len=8").Does("");
  s.SendsNext("SELECTIVE_ACK psn=000200 msn=0 kept=/2016");
  EXPECT_EQ(s.sent().own.size(), 256u);
  s.Receive("WRITE_ONLY psn=0009df len=8").Does("keep");
}

// [sr.answer] A repeated packet is answered by where the responder stands: the map, and an ACK for
// one who does not understand that.
TEST(SelectiveResponder, ARepeatedPacketIsAnsweredByTheMap) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000200 len=8 ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("WRITE_ONLY psn=000202 len=8 ackreq");
  s.Sends({"SELECTIVE_ACK psn=000201 msn=1 kept=1/2", "NAK_SEQ psn=000201 msn=1"});
  s.Receive("WRITE_ONLY psn=000200 len=8 ackreq").Result(PacketResult::kDuplicate);
  s.Sends({"SELECTIVE_ACK psn=000201 msn=1 kept=1/2", "ACK psn=000200 msn=1"});
}

// [sr.key] What may not be written is kept like all else, and refused in its turn.
TEST(SelectiveResponder, WhatMayNotBeWrittenIsRefusedInItsTurn) {
  ScriptConfig config = Selective();
  Script s(config);
  s.At(0).Receive("ATOMIC_WRITE psn=000201 va=8 rkey=2b len=4 ackreq").Does("keep");
  s.State(QpState::kRts);
  s.Receive("WRITE_ONLY psn=000200 len=0").State(QpState::kErr);
  s.Sends({"NAK_INVALID_REQUEST psn=000201 msn=1"});
}

// [sr.rnr] The SEND is not taken; what follows is dropped without a word, as ever.
TEST(SelectiveResponder, KeepsNothingBehindAnRnrNak) {
  Script s(Selective());
  s.At(0).Receive("SEND_ONLY psn=000200 len=8 ackreq");
  s.Receive("WRITE_ONLY psn=000201 len=8").Does("");
  s.Sends({"RNR_NAK psn=000200 msn=0 timer=12"}).Quiet();
}

// [sr.rnr] A SEND that was kept finds no receive work in its turn: it must come again.
TEST(SelectiveResponder, AKeptSendWithoutAReceiveWorkMustComeAgain) {
  Script s(Selective());
  s.At(0)
      .Receive("SEND_ONLY psn=000201 len=8 ackreq")
      .Receive("WRITE_ONLY psn=000202 len=8 ackreq");
  s.Sends({"SELECTIVE_ACK psn=000200 msn=0 kept=1-2/3", "NAK_SEQ psn=000200 msn=0"});
  s.Receive("WRITE_ONLY psn=000200 len=0 ackreq").ThenDoes({""});
  s.Sends({"RNR_NAK psn=000201 msn=1 timer=12", "SELECTIVE_ACK psn=000201 msn=1 kept=1/2"});
  s.PostReceive();
  s.Receive("SEND_ONLY psn=000201 len=8 ackreq")
      .ThenDoes({"place_remote rkey=0 va=0 len=8 check=8"});
  s.Completes({"0 RECEIVE SUCCESS len=8"}).Sends({"ACK psn=000202 msn=3"});
}

// [sr.life] Nothing that was kept outlives the connection.
TEST(SelectiveResponder, AResetForgetsWhatIsKept) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000201 len=8 ackreq").Does("keep");
  EXPECT_TRUE(s.qp().keeps());
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts}) {
    s.Modify(state);
  }
  EXPECT_FALSE(s.qp().keeps());
  s.Receive("WRITE_ONLY psn=000200 len=8 ackreq").ThenDoes({}).Sends({"ACK psn=000200 msn=1"});
}

// [sr.life] Nor the error state.
TEST(SelectiveResponder, TheErrorStateForgetsWhatIsKept) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000201 len=8 ackreq").Modify(QpState::kErr);
  EXPECT_FALSE(s.qp().keeps());
}

// [sr.learn sr.standard] The agreement ends while packets are kept: these are executed, no more
// are.
TEST(SelectiveResponder, WithoutAgreementAnyMoreNothingMoreIsKept) {
  Script s(Selective());
  s.At(0).Receive("WRITE_ONLY psn=000201 len=8 ackreq").Does("keep");
  s.Agree(false).Sends({"NAK_SEQ psn=000200 msn=0"});
  s.Receive("WRITE_ONLY psn=000202 len=8 ackreq").Does("").Quiet();
  s.Receive("WRITE_ONLY psn=000200 len=8 ackreq")
      .ThenDoes({"place_remote rkey=0 va=0 len=8 check=8"});
  s.Sends({"ACK psn=000201 msn=2"});
  s.Receive("WRITE_ONLY psn=000203 len=8 ackreq").Does("").Sends({"NAK_SEQ psn=000202 msn=2"});
}

}  // namespace
}  // namespace uroce::transport
