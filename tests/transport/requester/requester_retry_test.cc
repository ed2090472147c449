// SPDX-License-Identifier: Apache-2.0
// Timers, retries and going back: docs/protocol/transport.md, sections 3.2 to 3.4.
#include <gtest/gtest.h>

#include "pipeline/transport/loss_recovery.h"
#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

constexpr int64_t kFirstTimeout = 67'108'864;  // Code 14.

// [3.2.timeout 3.3.timeout 2.psn.wrap] IBTA vol. 1, 9.7.6.1.3: 4.096 us * 2^code; across the PSN
// wrap.
TEST(RequesterRetry, TimeoutResendsFromOldestUnacked) {
  Script s({.sq_psn = 0xffffff});
  s.At(0).Post(Write(1500));
  s.Sends({"WRITE_FIRST psn=ffffff len=1024", "WRITE_LAST psn=000000 len=476 ackreq"});
  s.At(5'000).Receive("ACK psn=ffffff msn=0");
  s.At(5'000 + kFirstTimeout - 1).Quiet();
  s.At(5'000 + kFirstTimeout).Sends({"WRITE_LAST psn=000000 len=476 ackreq"});
  EXPECT_EQ(s.counters().local_ack_timeout_err, 1u);
  s.At(5'010 + kFirstTimeout).Receive("ACK psn=000000 msn=1").Completes({"0 WRITE SUCCESS"});
}

// [3.1.6] The timer starts with the first packet, restarts on progress, stops at the end.
TEST(RequesterRetry, TheTimerRunsOnlyWhileSomethingIsOutstanding) {
  Script s;
  s.At(0).Deadline(kNever).Post(Send(8)).Deadline(kNever);
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Deadline(Nanos(kFirstTimeout));
  s.At(10)
      .Post(Send(8))
      .Sends({"SEND_ONLY psn=000101 len=8 ackreq"})
      .Deadline(Nanos(kFirstTimeout));
  s.At(20).Receive("ACK psn=000100 msn=1").Deadline(Nanos(20 + kFirstTimeout));
  s.At(30).Receive("ACK psn=000100 msn=1").Deadline(Nanos(20 + kFirstTimeout));
  s.At(40).Receive("ACK psn=000101 msn=2").Deadline(kNever);
}

// [3.1.6] A READ that is being answered makes progress with each response.
TEST(RequesterRetry, EachReadResponseRestartsTheTimer) {
  Script s;
  s.At(0).Post(Read(3000)).Sends({"READ_REQUEST psn=000100 len=3000 ackreq"});
  s.At(100).Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.Deadline(Nanos(100 + kFirstTimeout));
}

// [3.3.timeout] Code 0 means no timer.
TEST(RequesterRetry, TimeoutCodeZeroMeansNever) {
  Script s({.timeout = 0});
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Deadline(kNever);
}

// [3.3.timeout]
TEST(RequesterRetry, TimeoutCodesDouble) {
  EXPECT_EQ(AckTimeout(1), Nanos(8'192));
  EXPECT_EQ(AckTimeout(8), Nanos(1'048'576));
  EXPECT_EQ(AckTimeout(14), Nanos(kFirstTimeout));
  EXPECT_EQ(AckTimeout(31), Nanos(int64_t{4096} << 31));
}

// [3.2.timeout.end 3.3.retries 6.peer-dead] retry_cnt=2 gives three transmissions, then
// RETRY_EXC_ERR.
TEST(RequesterRetry, RetryCountTwoMeansThreeTransmissions) {
  Script s({.retry_count = 2});
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.At(kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Nothing();
  s.At(3 * kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Nothing();
  s.At(7 * kFirstTimeout).Quiet().Completes({"0 SEND RETRY_EXC_ERR"}).State(QpState::kErr);
  s.Deadline(kNever);
  EXPECT_EQ(s.counters().retry_exceeded_err, 1u);
  EXPECT_EQ(s.counters().local_ack_timeout_err, 3u);
}

// [3.2.timeout.end] A peer that takes no packets is like one that does not answer.
TEST(RequesterRetry, WhatIsHeldRunsOutOfRetries) {
  Script s({.retry_count = 1});
  s.qp().OnHeld(Nanos(0));
  s.Deadline(kNever).Post(Send(8));
  s.qp().OnHeld(Nanos(0));
  s.Deadline(Nanos(kFirstTimeout)).At(10);
  s.qp().OnHeld(Nanos(10));
  s.Deadline(Nanos(kFirstTimeout)).At(kFirstTimeout).Nothing().Deadline(kNever);
  s.qp().OnHeld(Nanos(kFirstTimeout));
  s.At(3 * kFirstTimeout).Quiet().Completes({"0 SEND RETRY_EXC_ERR"}).State(QpState::kErr);
  s.Deadline(kNever);
}

TEST(RequesterRetry, WhatIsHeldWithoutATimerWaits) {
  Script s({.timeout = 0});
  s.Post(Send(8)).qp().OnHeld(Nanos(0));
  s.Deadline(kNever).At(kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
}

// Neither a timeout nor the packets after it are a resend: nothing had left.
TEST(RequesterRetry, WhatWasHeldLeavesForTheFirstTime) {
  Script s;
  s.Post(Send(8)).qp().OnHeld(Nanos(0));
  s.At(kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"}).Deadline(kNever);
  EXPECT_EQ(s.counters().retransmitted_pkts, 0u);
}

// [3.3.back-off] Between T and 4 T. What a slow peer has not finished yet is not sent again as
// often.
TEST(RequesterRetry, TimeoutsInARowDoubleUpToFourTimes) {
  Script s;
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Deadline(Nanos(kFirstTimeout));
  int64_t now = 0;
  for (const int times : {1, 2, 4, 4, 4, 4, 4}) {
    now += times * kFirstTimeout;
    s.At(now - 1).Quiet().At(now).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  }
  s.Deadline(Nanos(now + 4 * kFirstTimeout)).State(QpState::kRts);
}

// [3.3.back-off] Progress shows that the peer keeps up again.
TEST(RequesterRetry, ProgressEndsTheBackOff) {
  Script s;
  s.At(0).Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.At(kFirstTimeout);
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Deadline(Nanos(3 * kFirstTimeout));
  s.At(kFirstTimeout + 10).Receive("ACK psn=000100 msn=1").Deadline(Nanos(2 * kFirstTimeout + 10));
}

// [3.3.back-off] A queue pair that is used again starts again.
TEST(RequesterRetry, ResetEndsTheBackOff) {
  Script s;
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.At(kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Modify(QpState::kReset).Modify(QpState::kInit).Modify(QpState::kRtr).Modify(QpState::kRts);
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Deadline(Nanos(2 * kFirstTimeout));
}

// [3.3.progress] Progress refills the counter. 7 is just seven.
TEST(RequesterRetry, ProgressRefillsTheRetries) {
  Script s({.path_mtu = 256, .retry_count = 1});
  s.At(0).Post(Write(512));
  s.Sends({"WRITE_FIRST psn=000100 len=256", "WRITE_LAST psn=000101 len=256 ackreq"});
  s.At(kFirstTimeout);
  s.Sends({"WRITE_FIRST psn=000100 len=256", "WRITE_LAST psn=000101 len=256 ackreq"});
  s.Receive("ACK psn=000100 msn=0");
  s.At(2 * kFirstTimeout).Sends({"WRITE_LAST psn=000101 len=256 ackreq"});
  s.At(4 * kFirstTimeout).Completes({"0 WRITE RETRY_EXC_ERR"});
}

// [3.3.retries]
TEST(RequesterRetry, RetryCountSevenIsFinite) {
  Script s({.retry_count = 7});
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  for (const int at : {1, 3, 7, 11, 15, 19, 23}) {
    s.At(at * kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  }
  s.At(27 * kFirstTimeout - 1).Nothing().At(27 * kFirstTimeout).Completes({"0 SEND RETRY_EXC_ERR"});
}

// [3.2.nak.sequence 3.4.message] ACK everything before P, go back to P. Section 3.4: MIDDLE and
// LAST again, with no RETH; later works follow.
TEST(RequesterRetry, ASequenceNakGoesBackToItsPsn) {
  Script s({.path_mtu = 256});
  s.Post(Send(8)).Post(Write(700)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "WRITE_FIRST psn=000101 len=256",
           "WRITE_MIDDLE psn=000102 len=256", "WRITE_LAST psn=000103 len=188 ackreq",
           "SEND_ONLY psn=000104 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000102 msn=1").Completes({"0 SEND SUCCESS"});
  s.Sends({"WRITE_MIDDLE psn=000102 len=256", "WRITE_LAST psn=000103 len=188 ackreq",
           "SEND_ONLY psn=000104 len=8 ackreq"});
  EXPECT_EQ(s.counters().packet_seq_err, 1u);
  s.Receive("ACK psn=000104 msn=3").Completes({"1 WRITE SUCCESS", "2 SEND SUCCESS"});
}

// [3.2.nak.once] One restart an event.
TEST(RequesterRetry, ASecondNakOfTheSamePsnIsIgnoredWhileResending) {
  Script s({.retry_count = 1});
  s.Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0").Receive("NAK_SEQ psn=000100 msn=0");
  s.SendsNext("SEND_ONLY psn=000100 len=8 ackreq");
  s.Receive("NAK_SEQ psn=000100 msn=0");
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq"}).State(QpState::kRts);
}

// [3.3.progress] A NAK beyond the oldest unacknowledged PSN is progress, so a lossy wire alone
// exhausts nothing.
TEST(RequesterRetry, NaksThatMoveOnNeverExhaustTheRetries) {
  Script s({.path_mtu = 256, .retry_count = 1});
  s.Post(Write(10 * 256));
  s.SendsNext("WRITE_FIRST psn=000100 len=256");
  char nak[40], again[60];
  for (int i = 1; i < 9; ++i) {
    TxPacket rest;
    while (s.qp().PollPacket(Nanos(0), rest)) continue;
    std::snprintf(nak, sizeof nak, "NAK_SEQ psn=%06x msn=0", 0x100 + i);
    std::snprintf(again, sizeof again, "WRITE_MIDDLE psn=%06x len=256", 0x100 + i);
    s.Receive(nak).State(QpState::kRts).SendsNext(again);
  }
  EXPECT_EQ(s.counters().packet_seq_err, 8u);
}

// [3.3.retries]
TEST(RequesterRetry, ASequenceNakWithoutRetriesFails) {
  Script s({.retry_count = 0});
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0").Completes({"0 SEND RETRY_EXC_ERR"});
}

// [3.4.read 3.4.later] Atomics go out again unchanged, READs ask for what is missing.
TEST(RequesterRetry, TimeoutInAReadAsksForTheTailAndRepeatsWhatFollows) {
  Script s;
  s.At(0).Post(Read(3000, 0x4000)).Post(CompareSwap(1, 2)).Post(Read(8));
  s.Sends({"READ_REQUEST psn=000100 len=3000 ackreq",
           "COMPARE_SWAP psn=000103 compare=1 swap=2 ackreq",
           "READ_REQUEST psn=000104 len=8 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.At(kFirstTimeout).SendsNext("READ_REQUEST psn=000101 len=1976 ackreq");
  EXPECT_EQ(s.sent().header.reth.va, 0x4000u + 1024);
  EXPECT_EQ(s.sent().header.reth.length_bytes, 1976u);
  s.Sends(
      {"COMPARE_SWAP psn=000103 compare=1 swap=2 ackreq", "READ_REQUEST psn=000104 len=8 ackreq"});
}

// [3.2.ack] What was about to be resent and is acknowledged meanwhile is not sent again.
TEST(RequesterRetry, AnAckThatOvertakesTheResendSkipsIt) {
  Script s;
  s.At(0).Post(Send(8)).Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq",
           "SEND_ONLY psn=000102 len=8 ackreq"});
  s.At(kFirstTimeout).Receive("ACK psn=000101 msn=2");
  s.Sends({"SEND_ONLY psn=000102 len=8 ackreq"});
  s.Completes({"0 SEND SUCCESS", "1 SEND SUCCESS"});
}

// [3.2.rnr 3.3.rnr-quiet] Wait at least the timer of the code, resend from P; retry_cnt is not
// touched.
TEST(RequesterRetry, AnRnrNakWaitsAndResends) {
  Script s({.retry_count = 0});
  s.At(0).Post(Write(8)).Post(Send(8));
  s.Sends({"WRITE_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.At(1'000).Receive("RNR_NAK psn=000101 msn=1 timer=12").Completes({"0 WRITE SUCCESS"});
  s.Quiet().Deadline(Nanos(641'000));
  s.Post(Send(8)).At(640'999).Quiet();
  s.At(641'000).Sends({"SEND_ONLY psn=000101 len=8 ackreq", "SEND_ONLY psn=000102 len=8 ackreq"});
  s.Deadline(Nanos(641'000 + kFirstTimeout));
  EXPECT_EQ(s.counters().rnr_nak_retry_err, 1u);
  EXPECT_EQ(s.counters().local_ack_timeout_err, 0u);
}

// [3.2.rnr.end 3.3.rnr-retries 6.rnr] rnr_retry=2 gives three transmissions, then
// RNR_RETRY_EXC_ERR.
TEST(RequesterRetry, RnrRetryTwoMeansThreeTransmissions) {
  Script s({.rnr_retry = 2});
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("RNR_NAK psn=000100 msn=0 timer=1");
  s.At(10'000).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("RNR_NAK psn=000100 msn=0 timer=1");
  s.At(20'000).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Nothing().Receive("RNR_NAK psn=000100 msn=0 timer=1");
  s.Completes({"0 SEND RNR_RETRY_EXC_ERR"}).State(QpState::kErr).Quiet();
  EXPECT_EQ(s.counters().retry_rnr_exceeded_err, 1u);
  EXPECT_EQ(s.counters().rnr_nak_retry_err, 2u);
}

// [3.3.rnr-retries] 7 is without limit.
TEST(RequesterRetry, RnrRetrySevenNeverEnds) {
  Script s({.rnr_retry = 7});
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  for (int i = 1; i <= 100; ++i) {
    s.Receive("RNR_NAK psn=000100 msn=0 timer=1");
    s.At(i * 10'000).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  }
  s.State(QpState::kRts);
}

// [3.2.rnr.wait] No resend, no counting.
// golden/linux-rxe-5-rnr.
TEST(RequesterRetry, NaksOfTheSamePsnDuringTheRnrWaitAreIgnored) {
  Script s({.retry_count = 0, .rnr_retry = 1});
  s.At(0).Post(Send(3000));
  s.Sends({"SEND_FIRST psn=000100 len=1024", "SEND_MIDDLE psn=000101 len=1024",
           "SEND_LAST psn=000102 len=952 ackreq"});
  s.Receive("RNR_NAK psn=000100 msn=0 timer=12").Receive("NAK_SEQ psn=000100 msn=0");
  s.At(300'000).Receive("RNR_NAK psn=000100 msn=0 timer=12").Receive("NAK_SEQ psn=000100 msn=0");
  s.Quiet().Nothing().State(QpState::kRts).Deadline(Nanos(640'000));
  s.At(640'000);
  s.Sends({"SEND_FIRST psn=000100 len=1024", "SEND_MIDDLE psn=000101 len=1024",
           "SEND_LAST psn=000102 len=952 ackreq"});
}

// [3.3.progress] Resets both retry counters.
TEST(RequesterRetry, ProgressRefillsTheRnrRetries) {
  Script s({.rnr_retry = 1});
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("RNR_NAK psn=000100 msn=0 timer=1").At(10'000);
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Receive("ACK psn=000100 msn=1");
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("RNR_NAK psn=000101 msn=1 timer=1").State(QpState::kRts).At(20'000);
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
}

// [3.2.ack] An ACK that covers the refused packet ends the wait: there is nothing left to wait for.
TEST(RequesterRetry, AnAckOfTheRefusedPacketEndsTheRnrWait) {
  Script s;
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("RNR_NAK psn=000100 msn=0 timer=12").Receive("ACK psn=000100 msn=1");
  s.Completes({"0 SEND SUCCESS"}).Deadline(kNever);
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
}

// [3.2.rnr.read] The SEND is not sent again before the wait is over, whatever became of the READ;
// retry_cnt is not used.
TEST(RequesterRetry, AnRnrNakBehindALostReadResponseWaitsToo) {
  Script s({.retry_count = 0, .rnr_retry = 1});
  s.At(0).Post(Read(8)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.At(1'000).Receive("RNR_NAK psn=000101 msn=1 timer=12").Quiet().Deadline(Nanos(641'000));
  s.At(2'000).Receive("RNR_NAK psn=000101 msn=1 timer=12").Quiet().Deadline(Nanos(641'000));
  s.At(640'999).Quiet().At(641'000);
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Deadline(Nanos(641'000 + kFirstTimeout));
  EXPECT_EQ(s.counters().rnr_nak_retry_err, 1u);
}

// [3.2.rnr.read] The RNR NAK has overtaken the response: that ends no wait.
TEST(RequesterRetry, AReadResponseInFrontOfTheRefusedPacketEndsNoRnrWait) {
  Script s;
  s.At(0).Post(Read(8)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.At(1'000).Receive("RNR_NAK psn=000101 msn=1 timer=12");
  s.At(2'000).Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1").Completes({"0 READ SUCCESS"});
  s.Quiet().Deadline(Nanos(641'000)).At(640'999).Quiet();
  s.At(641'000).Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
}

// [3.2.rnr.read 3.2.rnr] The end of the READ's response arrives each time in front of the RNR NAK,
// its beginning never: that is one event, not one a wait.
TEST(RequesterRetry, RnrNaksBehindALostReadResponseCostNoRetries) {
  Script s({.retry_count = 1, .rnr_retry = 7});
  s.At(0).Post(Read(1025)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=1025 ackreq", "SEND_ONLY psn=000102 len=8 ackreq"});
  for (int i = 1; i < 10; ++i) {
    s.Receive("READ_RESPONSE_LAST psn=000101 len=1 msn=1");
    s.Receive("RNR_NAK psn=000102 msn=1 timer=1").Quiet().At(i * 10'000);
    s.Sends({"READ_REQUEST psn=000100 len=1025 ackreq", "SEND_ONLY psn=000102 len=8 ackreq"});
  }
  s.State(QpState::kRts);
}

// [3.3.rnr-retries 3.2.rnr.read]
TEST(RequesterRetry, AnRnrNakBehindALostReadResponseCountsAsOne) {
  Script s({.rnr_retry = 0});
  s.Post(Read(8)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("RNR_NAK psn=000101 msn=1 timer=12").State(QpState::kErr);
}

// [3.3.rnr-codes] The table of RNR timer codes.
TEST(RequesterRetry, RnrTimerCodes) {
  EXPECT_EQ(RnrWait(0), Nanos(655'360'000));
  EXPECT_EQ(RnrWait(1), Nanos(10'000));
  EXPECT_EQ(RnrWait(12), Nanos(640'000));
  EXPECT_EQ(RnrWait(16), Nanos(2'560'000));
  EXPECT_EQ(RnrWait(31), Nanos(491'520'000));
}

// [3.2.nak.once] A timeout may be answered by a NAK of the same PSN, which then is news.
TEST(RequesterRetry, ANakAfterATimeoutGoesBackAgain) {
  Script s({.retry_count = 3});
  s.At(0).Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0");
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.At(kFirstTimeout);
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0");
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
}

// [3.3.retries.once] What the NAK tells of was paid for: else half of the timeouts end a connection
// over a link that lets short answers through and long ones not.
TEST(RequesterRetry, ANakAfterATimeoutCostsNoSecondRetry) {
  Script s({.retry_count = 1});
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.At(kFirstTimeout).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0").Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("NAK_SEQ psn=000100 msn=0").Quiet().State(QpState::kRts);
  s.At(3 * kFirstTimeout).Completes({"0 SEND RETRY_EXC_ERR"});
}

// [3.3.retries.once] The short end of a READ's response arrives each time, its long beginning
// never.
TEST(RequesterRetry, AnImpliedNakAfterATimeoutCostsNoSecondRetry) {
  Script s({.retry_count = 2});
  s.At(0).Post(Read(1025)).Sends({"READ_REQUEST psn=000100 len=1025 ackreq"});
  for (const int at : {1, 3}) {
    s.At(at * kFirstTimeout).Sends({"READ_REQUEST psn=000100 len=1025 ackreq"});
    s.Receive("READ_RESPONSE_LAST psn=000101 len=1 msn=1");
    s.Sends({"READ_REQUEST psn=000100 len=1025 ackreq"}).State(QpState::kRts);
  }
  s.At(7 * kFirstTimeout).Completes({"0 READ RETRY_EXC_ERR"});
}

// [3.3.retries.once 3.3.progress] Progress ends it: then a NAK counts again.
TEST(RequesterRetry, ANakAfterProgressCostsARetry) {
  Script s({.path_mtu = 256, .retry_count = 1});
  s.At(0).Post(Write(512));
  s.Sends({"WRITE_FIRST psn=000100 len=256", "WRITE_LAST psn=000101 len=256 ackreq"});
  s.At(kFirstTimeout);
  s.Sends({"WRITE_FIRST psn=000100 len=256", "WRITE_LAST psn=000101 len=256 ackreq"});
  s.Receive("NAK_SEQ psn=000101 msn=0").Sends({"WRITE_LAST psn=000101 len=256 ackreq"});
  s.At(2 * kFirstTimeout).Completes({"0 WRITE RETRY_EXC_ERR"});
}

}  // namespace
}  // namespace uroce::transport
