// SPDX-License-Identifier: Apache-2.0
// What events mean to all parts of loss recovery together (pipeline/transport/loss_recovery.h).
#include <gtest/gtest.h>

#include "pipeline/transport/loss_recovery.h"
#include "tests/transport/works_in_flight.h"

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

// [cc.loss] Whoever controls the rate learns of each loss of requests once.
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

}  // namespace
}  // namespace uroce::transport
