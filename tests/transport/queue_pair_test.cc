// SPDX-License-Identifier: Apache-2.0
// States of a reliable connection, and its two halves side by side: docs/protocol/transport.md,
// sections 1, 6.1 and 7.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [1.drop] RESET, INIT and ERR drop packets.
TEST(QueuePair, DropsPacketsOutsideOfRtrToSqd) {
  for (const QpState state : {QpState::kReset, QpState::kInit}) {
    Script s({.state = state});
    s.PostReceive().Receive("SEND_ONLY psn=000200 len=8 ackreq").Result(PacketResult::kBadState);
    s.Does("").Quiet().Nothing();
  }
  Script s;
  s.Modify(QpState::kErr).Receive("WRITE_ONLY psn=000200 len=8 ackreq");
  s.Result(PacketResult::kBadState).Quiet();
}

// [1.rtr] In RTR requests are processed, nothing of one's own is sent.
TEST(QueuePair, RtrServesRequestsOnly) {
  Script s({.state = QpState::kRtr});
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("ACK psn=000100 msn=1").Result(PacketResult::kGhost);
  s.Modify(QpState::kRts).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
}

// [6.1.established] The first packet in RTR raises COMM_EST, once.
TEST(QueuePair, TheFirstPacketInRtrRaisesCommEst) {
  Script s({.state = QpState::kRtr});
  s.Raises({}).Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Raises({QpEvent::kCommEst}).Receive("WRITE_ONLY psn=000201 len=8 va=1000 rkey=2a");
  s.Raises({});
  Script rts;
  rts.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Raises({});
}

// [1.sqd 1.sqd.drained] Works begun are finished, none is begun, the receive side is active.
TEST(QueuePair, SqdFinishesWhatIsBegunAndHoldsTheRest) {
  Script s;
  s.Post(Write(2000)).Post(Send(8)).SendsNext("WRITE_FIRST psn=000100 len=1024");
  s.Modify(QpState::kSqd).Raises({});
  EXPECT_TRUE(s.qp().draining());
  s.Post(Send(8)).Sends({"WRITE_LAST psn=000101 len=976 ackreq"});
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Raises({}).Receive("ACK psn=000101 msn=1").Raises({QpEvent::kSqDrained});
  EXPECT_FALSE(s.qp().draining());
  s.Completes({"0 WRITE SUCCESS"}).Quiet().Deadline(kNever);
  s.Modify(QpState::kRts);
  s.Sends({"SEND_ONLY psn=000102 len=8 ackreq", "SEND_ONLY psn=000103 len=8 ackreq"});
  s.Raises({});
}

// [1.sqd.drained] With nothing begun it is drained at once; once for each stay.
TEST(QueuePair, AnIdleSendQueueIsDrainedAtOnce) {
  Script s;
  s.Post(Send(8)).Modify(QpState::kSqd).Raises({QpEvent::kSqDrained}).Quiet();
  s.Modify(QpState::kSqd).Raises({});
  s.Modify(QpState::kRts).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1").Modify(QpState::kSqd).Raises({QpEvent::kSqDrained});
}

// [1.sqd.drained] The event is for those who asked for it.
TEST(QueuePair, DrainingRaisesNothingUnasked) {
  Script s({.notify_drained = false});
  s.Modify(QpState::kSqd).Raises({});
  EXPECT_FALSE(s.qp().draining());
}

// [1.sqd] Works begun are retried too.
TEST(QueuePair, SqdResendsWhatIsLost) {
  Script s;
  s.At(0).Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Modify(QpState::kSqd);
  s.At(67'108'864).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
}

// [1.modify] RTS to RTS and SQD to RTS keep the PSNs.
TEST(QueuePair, ModifyingAttributesKeepsThePsns) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Modify(QpState::kRts);
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"});
  s.Modify(QpState::kSqd).Modify(QpState::kRts).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
}

// [6.1.flush 6.1.late] Each queue flushes in posting order, unsignaled works too; later works at
// once.
TEST(QueuePair, ErrFlushesBothQueues) {
  Script s({.signal_all = false});
  SendWork signaled = Send(8);
  signaled.signaled = true;
  s.PostReceive().PostReceive().Post(signaled).Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq",
           "SEND_ONLY psn=000102 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1").Modify(QpState::kErr);
  s.Completes({"0 SEND SUCCESS", "1 SEND WR_FLUSH_ERR", "2 SEND WR_FLUSH_ERR",
               "0 RECEIVE WR_FLUSH_ERR", "1 RECEIVE WR_FLUSH_ERR"});
  s.Post(Send(8)).PostReceive().Quiet().Deadline(kNever);
  s.Completes({"3 SEND WR_FLUSH_ERR", "2 RECEIVE WR_FLUSH_ERR"});
  EXPECT_EQ(s.counters().req_cqe_flush_error, 3u);
  EXPECT_EQ(s.counters().resp_cqe_flush_error, 3u);
}

// [6.1.partly] The receive work of a message that has not ended flushes as well.
TEST(QueuePair, APartlyReceivedMessageFlushes) {
  Script s;
  s.PostReceive().Receive("SEND_FIRST psn=000200 len=1024").Modify(QpState::kErr).Quiet();
  s.Completes({"0 RECEIVE WR_FLUSH_ERR"});
}

// [1.drop] A queue pair put into ERR says nothing more, whatever it still owed.
TEST(QueuePair, ErrDropsAnswersThatAreOwed) {
  Script s;
  s.Receive("READ_REQUEST psn=000200 len=4000 va=1000 rkey=2a ackreq");
  s.Receive("WRITE_ONLY psn=000204 len=8 va=1000 rkey=2a ackreq").Modify(QpState::kErr).Quiet();
}

// [1.reset] Any to RESET drops works without completions and clears PSN, MSN and resources.
TEST(QueuePair, ResetForgetsEverything) {
  Script s({.state = QpState::kRtr});
  s.PostReceive().Receive("SEND_FIRST psn=000200 len=1024").Modify(QpState::kRts);
  s.Receive("SEND_LAST psn=000201 len=8 ackreq");
  s.Receive("FETCH_ADD psn=000202 va=8 rkey=2a add=1 ackreq");
  s.Post(Send(8)).Post(Send(8)).Modify(QpState::kReset).Quiet().Nothing().Raises({});
  s.Deadline(kNever);
  EXPECT_EQ(s.qp().post_room(), 128u);
  s.Modify(QpState::kInit).Modify(QpState::kRtr).Modify(QpState::kRts);
  s.Receive("FETCH_ADD psn=000202 va=8 rkey=2a add=1 ackreq").Result(PacketResult::kOutOfSequence);
  s.Sends({"NAK_SEQ psn=000200 msn=0"});
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
}

// [1.reset]
TEST(QueuePair, ResetLeavesTheErrorStateBehind) {
  Script s;
  s.Post(Send(8)).Modify(QpState::kErr).Completes({"0 SEND WR_FLUSH_ERR"});
  s.Modify(QpState::kReset).Modify(QpState::kInit).Modify(QpState::kRtr).Modify(QpState::kRts);
  s.PostReceive().Receive("SEND_ONLY psn=000200 len=8 ackreq").Sends({"ACK psn=000200 msn=1"});
  s.Completes({"0 RECEIVE SUCCESS len=8"});
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
}

// [6.1.flush] A failing requester takes the receive side along, and the other way round.
TEST(QueuePair, AnErrorOfOneHalfFlushesTheOther) {
  Script s;
  s.PostReceive().Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("NAK_REMOTE_ACCESS psn=000100 msn=0");
  s.Completes({"0 SEND REM_ACCESS_ERR", "0 RECEIVE WR_FLUSH_ERR"});
  Script other;
  other.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  other.NextOutcome(EffectOutcome::kRemoteAccess).Receive("WRITE_ONLY psn=000200 len=8 ackreq");
  other.Completes({"0 SEND WR_FLUSH_ERR"}).Sends({"NAK_REMOTE_ACCESS psn=000200 msn=0"});
}

// A long READ that is being answered lets one's own requests through, in turns.
TEST(QueuePair, OwnRequestsAndReadResponsesTakeTurns) {
  Script s({.path_mtu = 256});
  s.Receive("READ_REQUEST psn=000200 len=1024 va=1000 rkey=2a ackreq").Post(Write(600));
  s.Sends({"READ_RESPONSE_FIRST psn=000200 len=256 msn=1", "WRITE_FIRST psn=000100 len=256",
           "READ_RESPONSE_MIDDLE psn=000201 len=256", "WRITE_MIDDLE psn=000101 len=256",
           "READ_RESPONSE_MIDDLE psn=000202 len=256", "WRITE_LAST psn=000102 len=88 ackreq",
           "READ_RESPONSE_LAST psn=000203 len=256 msn=1"});
}

// Acknowledgements go before one's own requests.
TEST(QueuePair, AcknowledgementsComeFirst) {
  Script s;
  s.Post(Send(8)).Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Sends({"ACK psn=000200 msn=1", "SEND_ONLY psn=000100 len=8 ackreq"});
}

// [4.1.1] Other services have no business here.
TEST(QueuePair, IgnoresPacketsOfOtherServices) {
  Script s;
  for (const int opcode : {0x24, 0x64, 0x81, 0xa4}) {
    wire::Packet packet;
    packet.header.opcode = static_cast<wire::Opcode>(opcode);
    packet.header.psn = wire::Psn(0x200);
    Effect effect;
    EXPECT_EQ(s.qp().OnPacket(packet, Nanos(0), effect), PacketResult::kMalformed);
  }
  s.Quiet().State(QpState::kRts);
}

// An idle connection of 128 works fits the budget of memory beside the shared rings.
TEST(QueuePair, IsSmall) {
  EXPECT_LE(sizeof(RcQueuePair) + 128 * sizeof(HeldWork) + 16 * sizeof(ResponderResource), 13'000u);
}

}  // namespace
}  // namespace uroce::transport
