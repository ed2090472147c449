// SPDX-License-Identifier: Apache-2.0
// What events mean to all parts of loss recovery together (pipeline/transport/loss_recovery.h).
#include <gtest/gtest.h>

#include "pipeline/transport/loss_recovery.h"
#include "tests/transport/script/works_in_flight.h"

namespace uroce::transport {
namespace {

// When a requester goes back, and at what cost (pipeline/transport/loss_recovery.h).

using Decision = GoBackN::Decision;

GoBackN WithRetries(uint8_t count) {
  GoBackN go_back;
  go_back.Configure(count);
  return go_back;
}

Decision OnNak(GoBackN& go_back, bool timed_out = false) {
  return go_back.OnLoss(ResendCause::kSequenceNak, false, timed_out);
}

// [3.3.retries]
TEST(GoBackNTest, ARetryIsSpentByEachTimeout) {
  GoBackN go_back = WithRetries(2);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().cause, ResendCause::kAckTimeout);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().number, 2);
  EXPECT_EQ(go_back.resend().limit, 2);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kExhausted);
}

// [3.3.progress]
TEST(GoBackNTest, ProgressRefillsTheRetries) {
  GoBackN go_back = WithRetries(1);
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
  go_back.OnProgress();
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().number, 1);
}

TEST(GoBackNTest, OneEventGoesBackOnce) {
  GoBackN go_back = WithRetries(7);
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
  EXPECT_EQ(OnNak(go_back), Decision::kStay);
  EXPECT_FALSE(go_back.OnFreeLoss(ResendCause::kSequenceNak));
  go_back.ForgetEvent();
  EXPECT_EQ(OnNak(go_back), Decision::kGoBack);
}

TEST(GoBackNTest, WhatIsToBeSentAgainAnywayIsNotLostOnceMore) {
  GoBackN go_back = WithRetries(7);
  EXPECT_EQ(go_back.OnLoss(ResendCause::kSequenceNak, true, false), Decision::kStay);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
}

// [3.3.retries.once] What costs no retry says so: its number is 0.
TEST(GoBackNTest, ANakBehindATimeoutCostsNoRetry) {
  GoBackN go_back = WithRetries(1);
  EXPECT_EQ(go_back.OnTimeout(), Decision::kGoBack);
  EXPECT_EQ(OnNak(go_back, true), Decision::kGoBack);
  EXPECT_EQ(go_back.resend().cause, ResendCause::kSequenceNak);
  EXPECT_EQ(go_back.resend().number, 0);
  EXPECT_EQ(OnNak(go_back, true), Decision::kStay);
}

TEST(GoBackNTest, AFreeLossCostsNoRetry) {
  GoBackN go_back = WithRetries(0);
  EXPECT_TRUE(go_back.OnFreeLoss(ResendCause::kSequenceNak));
  EXPECT_EQ(go_back.resend().number, 0);
}

using wire::Psn;

struct LossRecoveryTest : testing::Test {
  LossRecoveryTest() {
    works.SetMtu(PathMtu(kSmallMtu));
    works.Start(Psn(100));
    recovery.Configure({.timeout = 14, .retry_count = 2, .rnr_retry = 1});
    recovery.ForgetLost();
  }
  void Send(const SendWork& work, Nanos now) {
    const Psn psn = works.next_psn();
    const uint32_t in_flight = works.RequestsInFlight();
    recovery.BeforeSend(psn, now);
    SendWhole(works, work);
    recovery.OnSent(psn, in_flight, true, now);
  }
  void Acknowledge(Psn end, Nanos now) {
    recovery.OnAcknowledged(works.AcknowledgeBefore(end).packets, now);
  }
  QueuePairCounters counters;
  SendWorks works{16};
  LossRecovery recovery{{.max_in_flight_packets = 64, .selective_repeat = true}, works, counters};
};

// [3.3.timeout] A deadline is there while something is in flight.
TEST_F(LossRecoveryTest, TheTimerRunsWhileSomethingIsInFlight) {
  EXPECT_EQ(recovery.deadline(), kNever);
  Send(Write(0), Nanos(0));
  const Nanos deadline = recovery.deadline();
  EXPECT_NE(deadline, kNever);
  Send(Write(0), Nanos(500));
  EXPECT_EQ(recovery.deadline(), deadline) << "it is that of the oldest";
  Acknowledge(Psn(101), Nanos(1'000));
  EXPECT_EQ(recovery.deadline(), deadline + Nanos(1'000));
  Acknowledge(Psn(102), Nanos(2'000));
  EXPECT_EQ(recovery.deadline(), kNever);
}

// [3.3.retries 3.1.5.narrow] Each timeout goes back, halves the window and costs a retry.
TEST_F(LossRecoveryTest, ATimeoutGoesBackUntilNoRetryIsLeft) {
  Send(Write(4 * kSmallMtu), Nanos(0));
  for (uint32_t timeouts = 1; timeouts <= 2; ++timeouts) {
    EXPECT_TRUE(recovery.MaySend((64 >> (timeouts - 1)) - 1));
    EXPECT_TRUE(recovery.OnDeadline(recovery.deadline()));
    EXPECT_EQ(works.next_psn(), Psn(100));
    EXPECT_EQ(recovery.resend().cause, ResendCause::kAckTimeout);
    EXPECT_EQ(recovery.resend().number, timeouts);
    EXPECT_FALSE(recovery.MaySend(64 >> timeouts));
    EXPECT_EQ(counters.local_ack_timeout_err, timeouts);
    recovery.OnHeld(Nanos(0));
  }
  EXPECT_FALSE(recovery.OnDeadline(recovery.deadline()));
  EXPECT_EQ(counters.retry_exceeded_err, 1u);
}

// [cc.loss] The rate control learns of each loss of requests once.
TEST_F(LossRecoveryTest, ALossOfRequestsIsToldOnce) {
  Send(Write(4 * kSmallMtu), Nanos(0));
  EXPECT_FALSE(recovery.TakeLosses().any());
  EXPECT_TRUE(recovery.OnDeadline(recovery.deadline()));
  const Losses losses = recovery.TakeLosses();
  EXPECT_TRUE(losses.requests);
  EXPECT_FALSE(losses.responses);
  EXPECT_FALSE(recovery.TakeLosses().any());
}

// [3.3.rnr-quiet 3.3.rnr-retries]
TEST_F(LossRecoveryTest, AnRnrNakWaitsWithoutTheAckTimer) {
  Send(Write(0), Nanos(0));
  EXPECT_TRUE(recovery.OnRnrNak(Psn(100), Nanos(700), true));
  EXPECT_TRUE(recovery.waiting());
  EXPECT_EQ(recovery.deadline(), Nanos(700));
  EXPECT_TRUE(recovery.OnDeadline(Nanos(700)));
  EXPECT_FALSE(recovery.waiting());
  EXPECT_EQ(counters.local_ack_timeout_err, 0u);
  EXPECT_FALSE(recovery.OnRnrNak(Psn(100), Nanos(900), true)) << "rnr_retry is 1";
  EXPECT_EQ(counters.retry_rnr_exceeded_err, 1u);
}

// [sr.alone sr.retry] What a map names goes alone, at no retry, and the window stays.
TEST_F(LossRecoveryTest, WhatAMapNamesIsSentAlone) {
  Send(Write(4 * kSmallMtu), Nanos(0));
  recovery.OnMapOf({.psn = Psn(100)}, Nanos(10));
  EXPECT_TRUE(recovery.selective());
  recovery.OnMap(Psn(100), MapOf(4, 0b1110).map(), Nanos(10));
  ASSERT_TRUE(recovery.has_lost());
  EXPECT_TRUE(recovery.MaySend(63));
  TxPacket packet;
  recovery.FillLost(packet);
  EXPECT_EQ(packet.header.psn, Psn(100));
  EXPECT_EQ(packet.resend.cause, ResendCause::kSelectiveAck);
  EXPECT_TRUE(packet.header.ack_request) << "the last that is lost";
  EXPECT_FALSE(recovery.has_lost());
  EXPECT_EQ(works.next_psn(), Psn(104));
}

// [sr.probe] A tail loss probe is no timeout: it has its cause, its counter, and costs no retry.
TEST_F(LossRecoveryTest, ATailLossProbeIsNoTimeout) {
  recovery.SetSelective(true);
  Send(Write(0), Nanos(0));
  wire::TransportHeader ack;
  ack.opcode = wire::Opcode::kAcknowledge;
  ack.psn = Psn(100);
  recovery.OnResponse(ack, Nanos(10'000));
  Acknowledge(Psn(101), Nanos(10'000));
  Send(Write(2 * kSmallMtu), Nanos(20'000));
  // The wait of 100 us has four parts (TailLossProbe).
  for (const int64_t part : {45'000, 70'000, 95'000, 120'000}) {
    EXPECT_FALSE(recovery.has_lost());
    EXPECT_EQ(recovery.deadline(), Nanos(part));
    EXPECT_TRUE(recovery.OnDeadline(recovery.deadline()));
  }
  ASSERT_TRUE(recovery.has_lost());
  TxPacket packet;
  recovery.FillLost(packet);
  EXPECT_EQ(packet.header.psn, Psn(102)) << "the last";
  EXPECT_EQ(packet.resend.cause, ResendCause::kTailLossProbe);
  EXPECT_EQ(packet.resend.number, 0);
  EXPECT_EQ(counters.tail_loss_probes, 1u);
  EXPECT_EQ(counters.local_ack_timeout_err, 0u);
}

// [sr.probe] A peer whose queue pair was not ready yet has dropped the first packet, and the ACK
// timeout of a connection of rdma_cm is seconds.
TEST_F(LossRecoveryTest, AProbeComesBeforeARoundTripWasMeasured) {
  recovery.Configure({.timeout = 19, .retry_count = 2, .rnr_retry = 1});
  recovery.SetSelective(true);
  Send(Write(0), Nanos(0));
  for (const int64_t part : {0, 1, 2, 3}) {
    EXPECT_FALSE(recovery.has_lost());
    EXPECT_EQ(recovery.deadline(), Nanos((part + 1) * 52'500'000));
    EXPECT_TRUE(recovery.OnDeadline(recovery.deadline()));
  }
  EXPECT_TRUE(recovery.has_lost());
  EXPECT_EQ(counters.tail_loss_probes, 1u);
  EXPECT_EQ(counters.local_ack_timeout_err, 0u);
}

// The timers of a requester, and the round trips by which they go.

// When a requester's ACK timer expires (pipeline/transport/loss_recovery.h).

constexpr Nanos kTimeout{67'108'864};  // Code 14.

AckTimer Timer() {
  AckTimer timer;
  timer.Configure(14);
  return timer;
}

// [3.3.timeout]
TEST(AckTimerTest, ExpiresOnceAtItsDeadline) {
  AckTimer timer = Timer();
  timer.Start(Nanos(100), Nanos(0));
  EXPECT_EQ(timer.deadline(), kTimeout + Nanos(100));
  EXPECT_FALSE(timer.Expire(timer.deadline() - Nanos(1)));
  EXPECT_FALSE(timer.timed_out());
  EXPECT_TRUE(timer.Expire(timer.deadline()));
  EXPECT_FALSE(timer.running());
  EXPECT_TRUE(timer.timed_out());
}

// [3.3.timeout]
TEST(AckTimerTest, CodeZeroNeverRuns) {
  AckTimer timer;
  timer.Configure(0);
  timer.Start(Nanos(100), Nanos(1'000'000));
  EXPECT_FALSE(timer.running());
}

// [3.3.back-off]
TEST(AckTimerTest, TimeoutsInARowDoubleUpToFourTimes) {
  AckTimer timer = Timer();
  for (const int factor : {1, 2, 4, 4}) {
    timer.Start(Nanos(0), Nanos(0));
    EXPECT_EQ(timer.deadline(), kTimeout * factor);
    EXPECT_TRUE(timer.Expire(timer.deadline()));
  }
  timer.ForgetTimeouts();
  timer.Start(Nanos(0), Nanos(0));
  EXPECT_EQ(timer.deadline(), kTimeout);
}

// [3.3.adaptive]
TEST(AckTimerTest, WaitsForThreeRoundTripsWithinTheSameBounds) {
  AckTimer timer = Timer();
  timer.Start(Nanos(0), Nanos(1'000));
  EXPECT_EQ(timer.deadline(), kTimeout);
  timer.Start(Nanos(0), kTimeout);
  EXPECT_EQ(timer.deadline(), kTimeout * 3);
  timer.Start(Nanos(0), kTimeout * 2);
  EXPECT_EQ(timer.deadline(), kTimeout * 4);
}

// What a requester does about RNR NAKs (pipeline/transport/loss_recovery.h).

using wire::Psn;

// [3.3.rnr-retries]
TEST(RnrTimerTest, HasAsManyRetriesAsTheAttributeSays) {
  RnrTimer timer;
  timer.Configure(2);
  EXPECT_TRUE(timer.TakeRetry());
  EXPECT_EQ(timer.resend().number, 1);
  EXPECT_EQ(timer.resend().limit, 2);
  EXPECT_TRUE(timer.TakeRetry());
  EXPECT_FALSE(timer.TakeRetry());
  timer.OnProgress(Psn(1));
  EXPECT_TRUE(timer.TakeRetry());
}

// [3.3.rnr-retries]
TEST(RnrTimerTest, SevenIsWithoutLimit) {
  RnrTimer timer;
  timer.Configure(7);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(timer.TakeRetry());
  EXPECT_EQ(timer.resend().cause, ResendCause::kRnrNak);
  EXPECT_EQ(timer.resend().limit, Resend::kUnlimited);
}

TEST(RnrTimerTest, WaitsUntilItsDeadline) {
  RnrTimer timer;
  EXPECT_FALSE(timer.Expire(Nanos(1'000'000)));
  timer.Start(Psn(100), Nanos(500));
  EXPECT_TRUE(timer.waiting());
  EXPECT_FALSE(timer.Expire(Nanos(499)));
  EXPECT_TRUE(timer.Expire(Nanos(500)));
  EXPECT_FALSE(timer.waiting());
}

TEST(RnrTimerTest, TheSameNakAgainSaysNothingNew) {
  RnrTimer timer;
  EXPECT_FALSE(timer.IsKnown(Psn(100)));
  timer.Start(Psn(100), Nanos(500));
  EXPECT_TRUE(timer.IsKnown(Psn(99)));
  EXPECT_TRUE(timer.IsKnown(Psn(100)));
  EXPECT_FALSE(timer.IsKnown(Psn(101)));
}

TEST(RnrTimerTest, ProgressBehindTheRefusedPacketEndsTheWait) {
  RnrTimer timer;
  timer.Start(Psn(100), Nanos(500));
  timer.OnProgress(Psn(100));
  EXPECT_TRUE(timer.waiting()) << "what is in front of it tells nothing";
  timer.OnProgress(Psn(101));
  EXPECT_FALSE(timer.waiting());
}

// How round trips are measured (pipeline/transport/loss_recovery.h).

using wire::Psn;

TEST(RoundTripTest, ARoundLastsFromItsFirstPacketToWhatWasSentInIt) {
  RoundTrip round;
  EXPECT_FALSE(round.End(Nanos(5))) << "nothing was sent";
  EXPECT_FALSE(round.measured());
  round.OnSent(Psn(100), Nanos(10));
  round.OnSent(Psn(101), Nanos(50));  // Of the same round.
  EXPECT_FALSE(round.Covers(Psn(99)));
  EXPECT_TRUE(round.Covers(Psn(100)));
  EXPECT_FALSE(round.CoversBefore(Psn(100)));
  EXPECT_TRUE(round.CoversBefore(Psn(101)));
  EXPECT_TRUE(round.End(Nanos(90)));
  EXPECT_EQ(round.smoothed(), Nanos(80));
  EXPECT_FALSE(round.End(Nanos(95))) << "the next packet begins the next round";
}

TEST(RoundTripTest, ASampleWeighsAnEighth) {
  RoundTrip round;
  round.OnSent(Psn(0), Nanos(0));
  ASSERT_TRUE(round.End(Nanos(800)));
  round.OnSent(Psn(1), Nanos(1000));
  ASSERT_TRUE(round.End(Nanos(2600)));
  EXPECT_EQ(round.smoothed(), Nanos(900));
}

TEST(RoundTripTest, EachRoundIsTakenOnce) {
  RoundTrip round;
  EXPECT_EQ(round.TakeNewest(), Nanos(0));
  round.OnSent(Psn(0), Nanos(100));
  ASSERT_TRUE(round.End(Nanos(800)));
  EXPECT_EQ(round.TakeNewest(), Nanos(700));
  EXPECT_EQ(round.TakeNewest(), Nanos(0));
}

TEST(RoundTripTest, WhatIsSentAgainIsNotMeasured) {
  RoundTrip round;
  round.OnSent(Psn(0xffffff), Nanos(0));
  EXPECT_TRUE(round.Covers(Psn(0))) << "PSNs are circular";
  round.GiveUp();
  EXPECT_FALSE(round.End(Nanos(500)));
  EXPECT_FALSE(round.measured());
}

TEST(RoundTripTest, ResetForgetsWhatWasMeasured) {
  RoundTrip round;
  round.OnSent(Psn(0), Nanos(0));
  ASSERT_TRUE(round.End(Nanos(800)));
  round.Reset();
  EXPECT_FALSE(round.measured());
}

// When a requester sends tail loss probes (pipeline/transport/loss_recovery.h).

constexpr Nanos kUs{1'000};

/// When `probe` is due, looked at whenever its timer asks for it.
Nanos DueAt(TailLossProbe& probe) {
  for (;;) {
    const Nanos now = probe.deadline();
    EXPECT_FALSE(probe.Expire(now - Nanos(1)));
    if (probe.Expire(now)) return now;
  }
}

// [sr.probe]
TEST(TailLossProbeTest, WaitsForThreeRoundTripsAndAtLeastATenthOfAMillisecond) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  EXPECT_EQ(DueAt(probe), kUs * 100);
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 50, kNever);
  EXPECT_EQ(DueAt(probe), kUs * 150);
}

// [sr.probe]
TEST(TailLossProbeTest, AnOwnerThatStoodStillHasMoreLooksBeforeItIsDue) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  Nanos now = kUs * 1'000'000;
  for (int look = 0; look < 3; ++look, now = probe.deadline()) {
    EXPECT_FALSE(probe.Expire(now));
    EXPECT_EQ(probe.deadline(), now + kUs * 25);
  }
  EXPECT_TRUE(probe.Expire(now));
  EXPECT_EQ(now, kUs * 1'000'075);
}

// [sr.probe]
TEST(TailLossProbeTest, EachOneWithoutAnAnswerDoublesTheWait) {
  TailLossProbe probe;
  for (const int factor : {1, 2, 4}) {
    probe.Start(Nanos(0), kUs * 10, kNever);
    EXPECT_EQ(DueAt(probe), kUs * 100 * factor);
    EXPECT_EQ(probe.deadline(), kNever);
  }
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 10, kNever);
  EXPECT_EQ(DueAt(probe), kUs * 100);
}

/// The peer of `probe` answers after `silence`; looked at whenever the timer asks for it. Returns
/// whether a probe was sent. `now` becomes the time of the answer.
bool IsSentIn(TailLossProbe& probe, Nanos silence, Nanos& now) {
  bool sent = false;
  probe.Start(now, kUs * 10, kNever);
  const Nanos answer = now + silence;
  while (probe.deadline() < answer) {
    now = probe.deadline();
    if (!probe.Expire(now)) continue;
    sent = true;
    probe.Start(now, kUs * 10, kNever);
  }
  now = answer;
  probe.OnResponse(now, kUs * 10);
  return sent;
}

/// When the next probe is due, from `now` on.
Nanos WaitAt(TailLossProbe& probe, Nanos now) {
  probe.Start(now, kUs * 10, kNever);
  return DueAt(probe) - now;
}

// [sr.probe.silence] A peer whose thread has no CPU for a while is silent, and has lost nothing.
TEST(TailLossProbeTest, WaitsForTwiceTheLongestSilenceThatEndedByItself) {
  TailLossProbe probe;
  Nanos now{0};
  EXPECT_FALSE(IsSentIn(probe, kUs * 80, now));
  EXPECT_FALSE(IsSentIn(probe, kUs * 5, now)) << "a shorter one changes nothing";
  EXPECT_EQ(WaitAt(probe, now), kUs * 160);
}

// [sr.probe.silence]
TEST(TailLossProbeTest, ASilenceThatOutlastsItsProbesByRoundTripsEndedByItself) {
  TailLossProbe probe;
  Nanos now{0};
  EXPECT_TRUE(IsSentIn(probe, kUs * 1'000, now));
  EXPECT_FALSE(IsSentIn(probe, kUs * 1'900, now));
}

// [sr.probe.silence] That is what a loss looks like: the wait for the next one stays short.
TEST(TailLossProbeTest, ASilenceThatAProbeEndsTeachesNothing) {
  for (const int64_t answer_us : {105, 110, 120, 140}) {
    TailLossProbe probe;
    Nanos now{0};
    EXPECT_TRUE(IsSentIn(probe, kUs * answer_us, now));
    EXPECT_EQ(WaitAt(probe, now), kUs * 100) << answer_us;
  }
}

// [sr.probe.silence] A NAK tells of a loss, whenever it comes.
TEST(TailLossProbeTest, ASilenceThatEndsWithANewsOfALossTeachesNothing) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  const Nanos due = DueAt(probe);
  probe.OnResponse();
  EXPECT_EQ(WaitAt(probe, due + kUs * 80), kUs * 100);
}

// [sr.probe.silence]
TEST(TailLossProbeTest, TheOwnPauseIsNoSilenceOfThePeer) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 10, kNever);
  const Nanos now = kUs * 50'000;  // No look at the timer before the response.
  probe.OnResponse(now, kUs * 10);
  EXPECT_EQ(WaitAt(probe, now), kUs * 100);
}

// [sr.probe.silence] Nor does one pause make losses slow to mend.
TEST(TailLossProbeTest, ASilenceIsForgottenAndLengthensTheWaitToABound) {
  TailLossProbe probe;
  Nanos now{0};
  EXPECT_TRUE(IsSentIn(probe, kUs * 50'000, now));
  EXPECT_EQ(WaitAt(probe, now), kUs * 8'000);
  probe.OnResponse();
  EXPECT_EQ(WaitAt(probe, now + kUs * 2'000'000), kUs * 100);
}

// [sr.probe]
TEST(TailLossProbeTest, LeavesTheRestToTheAckTimeout) {
  TailLossProbe probe;
  probe.Start(Nanos(0), kUs * 50, kUs * 150);
  EXPECT_EQ(probe.deadline(), kNever);
  probe.Start(Nanos(0), kUs * 50, kUs * 151);
  EXPECT_EQ(DueAt(probe), kUs * 150);
  probe.OnResponse();
  probe.Start(Nanos(0), kUs * 64'000, kNever);
  EXPECT_EQ(probe.deadline(), kNever) << "beyond the longest wait, without an ACK timeout too";
}

}  // namespace
}  // namespace uroce::transport
