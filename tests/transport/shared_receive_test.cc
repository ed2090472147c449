// SPDX-License-Identifier: Apache-2.0
// Reliable connections with a shared receive queue, and extended ones: docs/protocol/transport.md,
// sections 6.1 and 11.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

constexpr ScriptConfig kInitiator{.service = wire::Service::kXrc, .role = RcRole::kInitiator};
constexpr ScriptConfig kTarget{
    .shared_receive = true, .service = wire::Service::kXrc, .role = RcRole::kTarget};

// [11.srq] The shell knows the queue by what it handed in.
TEST(SharedReceive, ACompletionNamesTheQueueOfItsReceiveWork) {
  Script s({.shared_receive = true});
  s.qp().PostReceive({.wr_id = 9, .slot = 5, .length_bytes = 64, .queue = 3});
  s.Receive("SEND_ONLY psn=000200 len=8 ackreq").Does("place_receive slot=5 at=0 len=8");
  Completion completion;
  ASSERT_TRUE(s.qp().PollCompletion(completion));
  EXPECT_EQ(completion.queue, 3u);
  EXPECT_EQ(completion.wr_id, 9u);
}

// [11.srq.empty]
TEST(SharedReceive, AnEmptyQueueIsAnRnrNak) {
  Script s({.shared_receive = true});
  s.Receive("SEND_ONLY psn=000200 len=8 ackreq").Sends({"RNR_NAK psn=000200 msn=0 timer=12"});
}

// [11.srq] A packet that is refused anyway takes nothing from the others.
TEST(SharedReceive, APacketOutOfOrderTakesNoReceiveWork) {
  Script s({.shared_receive = true});
  s.Receive("WRITE_FIRST psn=000200 len=1024 total=3000 va=1000 rkey=2a");
  wire::TransportHeader header;
  header.opcode = wire::Opcode::kSendOnly;
  header.psn = wire::Psn(0x201);
  EXPECT_FALSE(s.qp().NeedsReceive(header));
}

// [6.1.srq 6.1.last-wqe] Only what the queue pair had taken; the event once, and behind that.
TEST(SharedReceive, ErrFlushesWhatWasTakenAndTellsThatNoMoreWillBe) {
  Script s({.shared_receive = true});
  s.PostReceive().PostReceive().Receive("SEND_FIRST psn=000200 len=1024");
  s.Modify(QpState::kErr).Raises({}).Completes({"0 RECEIVE WR_FLUSH_ERR"});
  s.Raises({QpEvent::kLastWqeReached}).Raises({});
  s.Modify(QpState::kErr).Raises({});
}

// [6.1.last-wqe] Also when it fails by itself; and again after RESET.
TEST(SharedReceive, AFailureTellsThatNoMoreWillBeTaken) {
  Script s({.shared_receive = true});
  s.Receive("SEND_MIDDLE psn=000200 len=1024");
  s.Raises({QpEvent::kQpReqErr, QpEvent::kLastWqeReached});
  s.Modify(QpState::kReset).Raises({});
  s.Modify(QpState::kInit).Modify(QpState::kErr).Raises({QpEvent::kLastWqeReached});
}

// [6.1.last-wqe]
TEST(SharedReceive, AQueuePairWithItsOwnQueueTellsNothing) {
  Script s;
  s.Modify(QpState::kErr).Raises({});
}

// [11.xrc]
TEST(Xrc, AnInitiatorNamesTheSrqInAllRequests) {
  Script s(kInitiator);
  SendWork send = Send(1025);
  SendWork read = Read(8);
  send.xrc_srqn = 0x123;
  read.xrc_srqn = 0x456;
  s.Post(send).Post(read).Post(FetchAdd(1));
  s.Sends({"XRC_SEND_FIRST psn=000100 len=1024 srq=000123",
           "XRC_SEND_LAST psn=000101 len=1 srq=000123 ackreq",
           "XRC_READ_REQUEST psn=000102 len=8 srq=000456 ackreq",
           "XRC_FETCH_ADD psn=000103 srq=000000 add=1 ackreq"});
  s.Receive("ACK psn=000101 msn=1").Receive("READ_RESPONSE_ONLY psn=000102 len=8 msn=2");
  s.Does("place_send slot=1 at=0 len=8");
  s.Receive("ATOMIC_ACK psn=000103 msn=3 original=7");
  s.Completes({"0 SEND SUCCESS", "1 READ SUCCESS", "2 FETCH_ADD SUCCESS"});
}

// [11.xrc]
TEST(Xrc, ATargetAnswersWithOpcodesOfItsService) {
  Script s(kTarget);
  s.PostReceive().Receive("XRC_SEND_ONLY psn=000200 len=8 srq=000123 ackreq");
  s.Completes({"0 RECEIVE SUCCESS len=8"}).SendsNext("ACK psn=000200 msn=1");
  EXPECT_EQ(wire::ServiceOf(s.sent().header.opcode), wire::Service::kXrc);
  s.Receive("XRC_READ_REQUEST psn=000201 len=2000 va=1000 rkey=2a ackreq");
  s.Receive("XRC_SEND_MIDDLE psn=000203 len=1024");
  s.Sends({"XRC_READ_RESPONSE_FIRST psn=000201 len=1024 msn=2",
           "XRC_READ_RESPONSE_LAST psn=000202 len=976 msn=2",
           "NAK_INVALID_REQUEST psn=000203 msn=2"});
}

// [11.xrc 4.1.8]
TEST(Xrc, ATargetTellsItsAtomicsApart) {
  Script s(kTarget);
  s.Memory(5).Receive("XRC_COMPARE_SWAP psn=000200 va=1000 rkey=2a compare=5 swap=9 ackreq");
  s.Does("compare_swap rkey=2a va=1000 len=8 swap_add=9");
  s.Receive("XRC_FETCH_ADD psn=000201 va=1000 rkey=2a add=2 ackreq");
  s.Does("fetch_add rkey=2a va=1000 len=8 swap_add=2");
}

// [11.xrc.srq] Whether the request needs a receive work or only rights.
TEST(Xrc, AnSrqOutOfReachIsAnInvalidRequest) {
  for (const char* request : {
           "XRC_SEND_ONLY psn=000200 len=8 srq=000999 ackreq",
           "XRC_WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a srq=000999 ackreq",
           "XRC_WRITE_ONLY psn=000200 len=0 va=1000 rkey=2a srq=000999 ackreq",
           "XRC_READ_REQUEST psn=000200 len=8 va=1000 rkey=2a srq=000999 ackreq",
           "XRC_FETCH_ADD psn=000200 va=1000 rkey=2a add=1 srq=000999 ackreq",
       }) {
    Script s(kTarget);
    s.PostReceive().DenySrq().Receive(request).Does("").State(QpState::kErr);
    s.Sends({"NAK_INVALID_REQUEST psn=000200 msn=0"}).Completes({});
  }
}

// [11.xrc.srq 4.1.2.gap] Before its turn, or after it, a request is not judged by its SRQ.
TEST(Xrc, AnSrqOutOfReachOfAPacketOutOfTurnChangesNothing) {
  Script s(kTarget);
  s.PostReceive().Receive("XRC_SEND_ONLY psn=000200 len=8 srq=000123 ackreq");
  s.Sends({"ACK psn=000200 msn=1"});
  s.DenySrq().Receive("XRC_SEND_ONLY psn=000200 len=8 srq=000999 ackreq");
  s.Sends({"ACK psn=000200 msn=1"});
  s.DenySrq().Receive("XRC_SEND_ONLY psn=000202 len=8 srq=000999 ackreq");
  s.Sends({"NAK_SEQ psn=000201 msn=1"}).State(QpState::kRts);
  s.PostReceive().Receive("XRC_SEND_ONLY psn=000201 len=8 srq=000123 ackreq");
  s.Sends({"ACK psn=000201 msn=2"});
}

// [11.xrc.rights] Of every range that a request names, also in responses given again.
TEST(Xrc, RightsAreThoseOfTheSrqThatTheRequestNames) {
  Script s(kTarget);
  s.Receive("XRC_READ_REQUEST psn=000200 len=2000 va=1000 rkey=2a srq=000123 ackreq");
  s.Does("check_remote rkey=2a va=1000 len=2000 srq=000123");
  s.Receive("XRC_WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a srq=000456 ackreq");
  s.Does("place_remote rkey=2a va=1000 len=8 srq=000456 check=8");
  s.Receive("XRC_FETCH_ADD psn=000203 va=1000 rkey=2a add=1 srq=000789 ackreq");
  s.Does("fetch_add rkey=2a va=1000 len=8 srq=000789 swap_add=1");
  s.SendsNext("XRC_READ_RESPONSE_FIRST psn=000200 len=1024 msn=3");
  EXPECT_EQ(s.sent().remote.xrc_srqn, 0x123u);
  s.SendsNext("XRC_READ_RESPONSE_LAST psn=000201 len=976 msn=3");
  s.Receive("XRC_READ_REQUEST psn=000201 len=976 va=1400 rkey=2a srq=000456 ackreq").Does("");
  s.Receive("XRC_READ_REQUEST psn=000201 len=976 va=1400 rkey=2a srq=000123 ackreq");
  s.Does("check_remote rkey=2a va=1400 len=976 srq=000123");
}

// [11.xrc.srq] A message cannot change its SRQ half way.
TEST(Xrc, AnotherSrqWithinAMessageIsAnInvalidRequest) {
  Script s(kTarget);
  s.PostReceive().Receive("XRC_SEND_FIRST psn=000200 len=1024 srq=000123");
  s.Receive("XRC_SEND_LAST psn=000201 len=8 srq=000124 ackreq");
  s.Sends({"NAK_INVALID_REQUEST psn=000201 msn=0"}).Completes({"0 RECEIVE REM_INV_REQ_ERR"});
}

// [11.xrc.halves 4.1.1]
TEST(Xrc, AnInitiatorTakesNoRequestsAndATargetNoResponses) {
  Script initiator(kInitiator);
  initiator.Receive("XRC_WRITE_ONLY psn=000200 len=8").Result(PacketResult::kMalformed).Quiet();
  Script target(kTarget);
  target.Receive("ACK psn=000100 msn=1").Result(PacketResult::kGhost).Quiet();
  wire::Packet packet;
  packet.header.opcode = wire::Opcode::kWriteOnly;
  packet.header.psn = wire::Psn(0x200);
  Effect effect;
  EXPECT_EQ(target.qp().OnPacket(packet, Nanos(0), effect), PacketResult::kMalformed);
}

}  // namespace
}  // namespace uroce::transport
