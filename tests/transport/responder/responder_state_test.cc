// SPDX-License-Identifier: Apache-2.0
// End-to-end credits: docs/protocol/transport.md, section 2.
#include "pipeline/transport/responder_state.h"

#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [2.credits.sent] docs/protocol/wire-format.md, section 4: never more than there are.
TEST(Credits, ACodeNeverPromisesMoreThanThereIs) {
  EXPECT_EQ(CreditCode(0), 0);
  EXPECT_EQ(CreditCode(5), 4);
  EXPECT_EQ(CreditCode(6), 5);
  EXPECT_EQ(CreditCode(17), 8);
  EXPECT_EQ(CreditCode(24575), 28);
  EXPECT_EQ(CreditCode(4'000'000'000), 30);
}

// [2.credits.sent] All that acknowledges carries them: ACKs and replies, no NAK.
TEST(Credits, AnAckTellsHowManyReceiveWorksThereAre) {
  Script s;
  s.Offers(3).Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"ACK psn=000200 msn=1 credits=3"});
  s.Offers(100).Receive("READ_REQUEST psn=000201 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=000201 len=8 msn=2 credits=13"});
  s.Offers(0).Receive("SEND_ONLY psn=000202 len=8 ackreq");
  s.Sends({"RNR_NAK psn=000202 msn=2 timer=12"});
}

// [2.credits.sent] The MSN does not count the message under way yet, so its receive work does.
TEST(Credits, TheReceiveWorkAtHandCounts) {
  Script s;
  s.PostReceive().Offers(2).Receive("SEND_FIRST psn=000200 len=1024 ackreq");
  s.Sends({"ACK psn=000200 msn=0 credits=3"});
  s.Receive("SEND_LAST psn=000201 len=8 ackreq").Sends({"ACK psn=000201 msn=1 credits=2"});
}

// [2.credits.none]
TEST(Credits, ASharedReceiveQueueTellsNone) {
  Script s({.shared_receive = true});
  s.Offers(3).Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"ACK psn=000200 msn=1"});
}

// [1.reset 2.credits.sent] What was offered before RESET is of another life.
TEST(Credits, ResetForgetsWhatWasOffered) {
  Script s;
  s.Offers(3).Modify(QpState::kReset);
  for (const QpState state : {QpState::kInit, QpState::kRtr}) s.Modify(state);
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
}

// [2.credits.obeyed] Without credits, and before the first, there is no limit.
TEST(Credits, ARequesterStaysWithinMsnPlusCreditsAndOneProbe) {
  Script s;
  for (int i = 0; i < 6; ++i) s.Post(Send(8));
  s.SendsNext("SEND_ONLY psn=000100 len=8 ackreq").Receive("ACK psn=000100 msn=1 credits=2");
  // Messages 2 and 3 have a receive work, 4 is the probe.
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq", "SEND_ONLY psn=000102 len=8 ackreq",
           "SEND_ONLY psn=000103 len=8 ackreq"});
  s.Receive("ACK psn=000103 msn=4 credits=1");
  s.Sends({"SEND_ONLY psn=000104 len=8 ackreq", "SEND_ONLY psn=000105 len=8 ackreq"});
  s.Post(Send(8)).Quiet().Receive("ACK psn=000105 msn=6");
  s.Sends({"SEND_ONLY psn=000106 len=8 ackreq"});
}

// [2.credits.obeyed] What takes no receive work goes on, behind the probe too.
TEST(Credits, WritesReadsAndAtomicsNeedNone) {
  Script s;
  s.Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1 credits=0");
  s.Post(Write(8)).Post(Send(8)).Post(Read(8)).Post(FetchAdd(1)).Post(WriteImm(8, 1));
  s.Sends({"WRITE_ONLY psn=000101 len=8 ackreq", "SEND_ONLY psn=000102 len=8 ackreq",
           "READ_REQUEST psn=000103 len=8 ackreq", "FETCH_ADD psn=000104 add=1 ackreq"});
}

// [2.credits.probe] Of a longer message its first packet alone; once that is acknowledged, the
// message has its receive work.
TEST(Credits, AProbeIsOnePacketThatAsksForAnAck) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1 credits=0").Post(Send(3000)).Post(Send(8));
  s.Sends({"SEND_FIRST psn=000101 len=1024 ackreq"});
  EXPECT_EQ(s.counters().credit_probes, 1u);
  s.Receive("ACK psn=000101 msn=1 credits=0");
  // The next one is its own probe.
  s.Sends({"SEND_MIDDLE psn=000102 len=1024", "SEND_LAST psn=000103 len=952 ackreq",
           "SEND_ONLY psn=000104 len=8 ackreq"});
  EXPECT_EQ(s.counters().credit_probes, 2u);
  EXPECT_EQ(s.counters().tail_loss_probes, 0u) << "these are others";
}

// [2.credits.probe] The part of the requester that knows credits.
TEST(Credits, OneProbeIsUnderWayAtATime) {
  SendCredits credits;
  EXPECT_TRUE(credits.Covers());
  credits.OnAck(0, 0);
  EXPECT_FALSE(credits.Covers());
  EXPECT_TRUE(credits.MayBegin());
  credits.BeginProbe(wire::Psn(100));
  credits.OnMessageBegun();
  EXPECT_FALSE(credits.MayBegin());
  EXPECT_TRUE(credits.IsProbe(wire::Psn(100)));
  EXPECT_FALSE(credits.AwaitsProbe(wire::Psn(100), wire::Psn(100))) << "it has not left";
  EXPECT_TRUE(credits.AwaitsProbe(wire::Psn(100), wire::Psn(101)));
  credits.OnAcknowledged(wire::Psn(100));
  EXPECT_FALSE(credits.MayBegin());
  credits.OnAcknowledged(wire::Psn(101));
  EXPECT_TRUE(credits.MayBegin());
  EXPECT_FALSE(credits.IsProbe(wire::Psn(100)));
}

// [2.credits.probe] It is refused and comes again, alone.
TEST(Credits, AProbeThatFindsNoReceiveWorkWaitsAndComesAgain) {
  Script s;
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1 credits=0").Post(Send(3000));
  s.Sends({"SEND_FIRST psn=000101 len=1024 ackreq"});
  s.Receive("RNR_NAK psn=000101 msn=1 timer=1").Quiet();
  s.At(10'000).Sends({"SEND_FIRST psn=000101 len=1024 ackreq"});
  s.Receive("ACK psn=000101 msn=1");
  s.Sends({"SEND_MIDDLE psn=000102 len=1024", "SEND_LAST psn=000103 len=952 ackreq"});
}

// [2.credits.ghost]
TEST(Credits, AnAckOfThePastBringsCreditsAndTakesNone) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1 credits=0").Post(Send(8)).Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1 credits=2").Result(PacketResult::kGhost);
  s.Receive("ACK psn=000100 msn=1 credits=1").Result(PacketResult::kGhost);
  s.Sends({"SEND_ONLY psn=000102 len=8 ackreq"});
}

}  // namespace
}  // namespace uroce::transport
