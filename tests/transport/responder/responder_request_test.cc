// SPDX-License-Identifier: Apache-2.0
// How a responder executes new requests and acknowledges: docs/protocol/transport.md,
// sections 2, 4.1, 4.2, 4.4 and 5.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [4.1.8 12.solicited] Payload goes into one receive work, which completes with the last packet.
TEST(ResponderRequest, PlacesASendIntoOneReceiveWork) {
  Script s({.rq_psn = 0xffffff});
  s.PostReceive(4096);
  s.Receive("SEND_FIRST psn=ffffff len=1024").Does("place_receive slot=0 at=0 len=1024");
  s.Receive("SEND_MIDDLE psn=000000 len=1024").Does("place_receive slot=0 at=1024 len=1024");
  s.Nothing().Quiet();
  s.Receive("SEND_LAST psn=000001 len=10 ackreq se").Does("place_receive slot=0 at=2048 len=10");
  s.Completes({"0 RECEIVE SUCCESS len=2058 se"}).Sends({"ACK psn=000001 msn=1"});
}

// [4.1.8]
TEST(ResponderRequest, DeliversImmediateData) {
  Script s;
  s.PostReceive().PostReceive();
  s.Receive("SEND_ONLY_WITH_IMM psn=000200 len=4 imm=a1b2c3d4 ackreq");
  s.Receive("WRITE_ONLY_WITH_IMM psn=000201 len=4 va=1000 rkey=2a imm=01020304 ackreq");
  s.Does("place_remote rkey=2a va=1000 len=4 check=4");
  s.Completes(
      {"0 RECEIVE SUCCESS len=4 imm=a1b2c3d4", "1 RECEIVE_WRITE SUCCESS len=4 imm=01020304"});
  s.Sends({"ACK psn=000201 msn=2"});
}

// [5.empty 4.1.7.empty] SEND 0 consumes a receive work; empty WRITEs and READs name no memory.
TEST(ResponderRequest, EmptyMessagesSkipKeyChecks) {
  Script s;
  s.PostReceive().PostReceive();
  s.Receive("SEND_ONLY psn=000200 len=0 ackreq").Does("");
  s.Receive("WRITE_ONLY psn=000201 len=0 va=3 rkey=bad ackreq").Does("");
  s.Receive("WRITE_ONLY_WITH_IMM psn=000202 len=0 va=3 rkey=bad imm=00000009 ackreq").Does("");
  s.Receive("READ_REQUEST psn=000203 len=0 va=3 rkey=bad ackreq").Does("");
  s.Completes({"0 RECEIVE SUCCESS len=0", "1 RECEIVE_WRITE SUCCESS len=0 imm=00000009"});
  s.Sends({"READ_RESPONSE_ONLY psn=000203 len=0 msn=4"});
}

// [4.1.7] The key covers the whole message with its first packet.
TEST(ResponderRequest, ChecksTheKeyOfAWriteForTheWholeMessage) {
  Script s;
  s.Receive("WRITE_FIRST psn=000200 len=1024 total=2500 va=8000 rkey=2a");
  s.Does("place_remote rkey=2a va=8000 len=1024 check=2500");
  s.Receive("WRITE_MIDDLE psn=000201 len=1024");
  s.Does("place_remote rkey=2a va=8400 len=1024 check=1476");
  s.Receive("WRITE_LAST psn=000202 len=452 ackreq");
  s.Does("place_remote rkey=2a va=8800 len=452 check=452");
  s.Nothing().Sends({"ACK psn=000202 msn=1"});
  EXPECT_EQ(s.counters().rx_write_requests, 1u);
}

// [12.length] The length of a WRITE with immediate is that of the whole message.
TEST(ResponderRequest, AWriteWithImmediateReportsTheWholeLength) {
  Script s;
  s.PostReceive();
  s.Receive("WRITE_FIRST psn=000200 len=1024 total=1500 va=8000 rkey=2a");
  s.Receive("WRITE_LAST_WITH_IMM psn=000201 len=476 imm=00000005 ackreq");
  s.Completes({"0 RECEIVE_WRITE SUCCESS len=1500 imm=00000005"});
}

// [4.2.merged 2.ack] An ACK is due only when asked for; one answers many.
TEST(ResponderRequest, OneAckAnswersManyRequests) {
  Script s;
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a").Quiet();
  s.Receive("WRITE_ONLY psn=000201 len=8 va=1000 rkey=2a ackreq");
  s.Receive("WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a ackreq");
  s.Receive("WRITE_FIRST psn=000203 len=1024 total=1025 va=1000 rkey=2a");
  s.Sends({"ACK psn=000203 msn=3"});
}

// [2.msn] The MSN has 24 bits and counts messages.
TEST(ResponderRequest, CountsMessagesNotPackets) {
  Script s({.path_mtu = 256});
  s.Receive("WRITE_FIRST psn=000200 len=256 total=300 va=0 rkey=2a ackreq");
  s.Sends({"ACK psn=000200 msn=0"});
  s.Receive("WRITE_LAST psn=000201 len=44 ackreq").Sends({"ACK psn=000201 msn=1"});
  s.Receive("FETCH_ADD psn=000202 va=8 rkey=2a add=1 ackreq");
  s.Sends({"ATOMIC_ACK psn=000202 msn=2 original=0"});
}

// [4.2.order] Responses leave in PSN order, an ACK behind the last packet of an earlier READ.
TEST(ResponderRequest, AnAckWaitsForTheResponsesOfEarlierReads) {
  Script s;
  s.PostReceive();
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Receive("READ_REQUEST psn=000201 len=2000 va=1000 rkey=2a ackreq");
  s.Does("check_remote rkey=2a va=1000 len=2000");
  s.Receive("SEND_ONLY psn=000203 len=8 ackreq");
  s.SendsNext("READ_RESPONSE_FIRST psn=000201 len=1024 msn=3");
  EXPECT_EQ(s.sent().payload_source, TxPacket::Source::kRemote);
  EXPECT_EQ(s.sent().remote.va, 0x1000u);
  s.SendsNext("READ_RESPONSE_LAST psn=000202 len=976 msn=3");
  EXPECT_EQ(s.sent().remote.va, 0x1400u);
  s.Sends({"ACK psn=000203 msn=3"});
}

// [4.2.reply] A response is sent even if AckReq is 0, and acknowledges all before it.
TEST(ResponderRequest, AReadIsAnsweredWithoutAckReq) {
  Script s;
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Receive("READ_REQUEST psn=000201 len=8 va=1000 rkey=2a");
  s.Sends({"READ_RESPONSE_ONLY psn=000201 len=8 msn=2"});
}

// [2.psn.read 2.psn.wrap] docs/protocol/wire-format.md, section 5: FIRST, MIDDLEs, LAST; a READ of
// n packets takes n PSNs.
TEST(ResponderRequest, SegmentsAReadAcrossThePsnWrap) {
  Script s({.rq_psn = 0xfffffe, .path_mtu = 256});
  s.Receive("READ_REQUEST psn=fffffe len=1000 va=1000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_FIRST psn=fffffe len=256 msn=1",
           "READ_RESPONSE_MIDDLE psn=ffffff len=256", "READ_RESPONSE_MIDDLE psn=000000 len=256",
           "READ_RESPONSE_LAST psn=000001 len=232 msn=1"});
  EXPECT_EQ(s.qp().expected_psn(), wire::Psn(2));
  EXPECT_EQ(s.counters().rx_read_requests, 1u);
}

// [4.1.8] Executed once, answered with what memory held before.
TEST(ResponderRequest, ExecutesAtomics) {
  Script s;
  s.Memory(5);
  s.Receive("COMPARE_SWAP psn=000200 va=1000 rkey=2a compare=5 swap=9 ackreq");
  s.Does("compare_swap rkey=2a va=1000 len=8 swap_add=9");
  s.Receive("FETCH_ADD psn=000201 va=1000 rkey=2a add=2 ackreq");
  s.Does("fetch_add rkey=2a va=1000 len=8 swap_add=2");
  s.Sends({"ATOMIC_ACK psn=000200 msn=2 original=5", "ATOMIC_ACK psn=000201 msn=2 original=9"});
  EXPECT_EQ(s.counters().rx_atomic_requests, 2u);
}

// [4.4.send] Data first, then the key; the completion names it.
TEST(ResponderRequest, InvalidatesWithTheLastPacket) {
  Script s({.path_mtu = 256});
  s.PostReceive().PostReceive();
  s.Receive("SEND_FIRST psn=000200 len=256").Does("place_receive slot=0 at=0 len=256");
  s.Receive("SEND_LAST_WITH_INVALIDATE psn=000201 len=4 inv=08000127 ackreq");
  s.Does("place_receive slot=0 at=256 len=4 inv=08000127");
  s.Receive("SEND_ONLY_WITH_INVALIDATE psn=000202 len=0 inv=08000128 ackreq");
  s.Does("invalidate inv=08000128");
  s.Completes({"0 RECEIVE SUCCESS len=260 inv=08000127", "1 RECEIVE SUCCESS len=0 inv=08000128"});
  s.Sends({"ACK psn=000202 msn=2"});
}

// [4.4.send.fails 6.invalidate] The requester sees success, the responder the error; no NAK.
TEST(ResponderRequest, AFailedInvalidateIsAcknowledgedAndEndsTheResponder) {
  Script s;
  s.PostReceive().PostReceive().NextOutcome(EffectOutcome::kInvalidateFailed);
  s.Receive("SEND_ONLY_WITH_INVALIDATE psn=000200 len=8 inv=00000bad ackreq");
  s.State(QpState::kErr).Sends({"ACK psn=000200 msn=0"});
  s.Completes({"0 RECEIVE REM_INV_REQ_ERR", "1 RECEIVE WR_FLUSH_ERR"});
}

// [4.1.5.receive 6.rnr] RNR NAK with the timer code; the queue pair stays, the message comes again.
TEST(ResponderRequest, NoReceiveWorkIsAnRnrNak) {
  Script s;
  s.Receive("SEND_FIRST psn=000200 len=1024").Result(PacketResult::kReceiverNotReady).Does("");
  s.Sends({"RNR_NAK psn=000200 msn=0 timer=12"}).State(QpState::kRts).Nothing();
  EXPECT_EQ(s.counters().out_of_buffer, 1u);
  s.PostReceive().Receive("SEND_FIRST psn=000200 len=1024").Result(PacketResult::kAccepted);
  s.Receive("SEND_LAST psn=000201 len=1 ackreq").Completes({"0 RECEIVE SUCCESS len=1025"});
  s.Sends({"ACK psn=000201 msn=1"});
}

// [4.1.2.rnr] Packets behind the refused one are dropped without a NAK 0x60.
TEST(ResponderRequest, PacketsBehindAnRnrNakAreDroppedSilently) {
  Script s;
  s.Receive("SEND_FIRST psn=000200 len=1024").Receive("SEND_MIDDLE psn=000201 len=1024");
  s.Result(PacketResult::kOutOfSequence).Receive("SEND_LAST psn=000202 len=9 ackreq");
  s.Sends({"RNR_NAK psn=000200 msn=0 timer=12"});
  s.Receive("SEND_ONLY psn=000203 len=9 ackreq").Quiet();
}

// [2.ack] An RNR NAK acknowledges all before its PSN.
TEST(ResponderRequest, AnRnrNakCarriesTheAckOfWhatIsBefore) {
  Script s;
  s.Receive("WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a ackreq");
  s.Receive("SEND_ONLY psn=000201 len=8 ackreq").Sends({"RNR_NAK psn=000201 msn=1 timer=12"});
}

// [4.1.5.immediate] For WRITEs with immediate the key first, then the receive work, then the data.
TEST(ResponderRequest, AWriteWithImmediateChecksTheKeyBeforeTheReceiveWork) {
  Script s;
  s.Receive("WRITE_ONLY_WITH_IMM psn=000200 len=8 va=1000 rkey=2a imm=00000001 ackreq");
  s.Result(PacketResult::kReceiverNotReady).Does("check_remote rkey=2a va=1000 len=8");
  s.Sends({"RNR_NAK psn=000200 msn=0 timer=12"}).Nothing();
  s.NextOutcome(EffectOutcome::kRemoteAccess);
  s.Receive("WRITE_ONLY_WITH_IMM psn=000200 len=8 va=1000 rkey=bad imm=00000001 ackreq");
  s.Sends({"NAK_REMOTE_ACCESS psn=000200 msn=0"}).State(QpState::kErr);
}

// [4.1.5.immediate]
TEST(ResponderRequest, AWriteLastWithImmediateWaitsForAReceiveWork) {
  Script s;
  s.Receive("WRITE_FIRST psn=000200 len=1024 total=1025 va=1000 rkey=2a");
  s.Receive("WRITE_LAST_WITH_IMM psn=000201 len=1 imm=00000001 ackreq");
  s.Does("check_remote rkey=2a va=1400 len=1").Sends({"RNR_NAK psn=000201 msn=0 timer=12"});
  s.PostReceive().Receive("WRITE_LAST_WITH_IMM psn=000201 len=1 imm=00000001 ackreq");
  s.Does("place_remote rkey=2a va=1400 len=1 check=1");
  s.Completes({"0 RECEIVE_WRITE SUCCESS len=1025 imm=00000001"}).Sends({"ACK psn=000201 msn=1"});
}

// [4.1.5.immediate 5.empty]
TEST(ResponderRequest, AnEmptyWriteWithImmediateNeedsAReceiveWorkToo) {
  Script s;
  s.Receive("WRITE_ONLY_WITH_IMM psn=000200 len=0 imm=00000001 ackreq").Does("");
  s.Sends({"RNR_NAK psn=000200 msn=0 timer=12"});
}

// The core asks for a receive work exactly when the packet takes one.
TEST(ResponderRequest, AsksForAReceiveWorkOnlyWhenOneIsTaken) {
  Script s;
  const auto needs = [&](wire::Opcode opcode, uint32_t psn) {
    wire::TransportHeader header;
    header.opcode = opcode;
    header.psn = wire::Psn(psn);
    return s.qp().NeedsReceive(header);
  };
  EXPECT_TRUE(needs(wire::Opcode::kSendFirst, 0x200));
  EXPECT_TRUE(needs(wire::Opcode::kSendOnlyWithInvalidate, 0x200));
  EXPECT_TRUE(needs(wire::Opcode::kWriteOnlyWithImm, 0x200));
  EXPECT_FALSE(needs(wire::Opcode::kWriteLastWithImm, 0x200));
  EXPECT_FALSE(needs(wire::Opcode::kSendMiddle, 0x200));
  EXPECT_FALSE(needs(wire::Opcode::kWriteOnly, 0x200));
  EXPECT_FALSE(needs(wire::Opcode::kReadRequest, 0x200));
  EXPECT_FALSE(needs(wire::Opcode::kSendFirst, 0x201));
  EXPECT_FALSE(needs(wire::Opcode::kSendFirst, 0x1ff));
  s.qp().PostReceive({.length_bytes = 8});
  EXPECT_FALSE(needs(wire::Opcode::kSendFirst, 0x200));
}

// More completions than wait at most: refused as if no receive work were there, nothing is lost.
TEST(ResponderRequest, AFullBufferOfCompletionsIsAnRnrNak) {
  Script s;
  char text[60];
  uint32_t accepted = 0;
  for (uint32_t i = 0; i < 2 * kMaxReceiveCompletions; ++i) {
    std::snprintf(text, sizeof text, "SEND_ONLY psn=%06x len=0 ackreq", 0x200 + accepted);
    const uint64_t refused = s.counters().out_of_buffer;
    s.PostReceive().Receive(text);
    if (s.counters().out_of_buffer != refused) break;
    ++accepted;
  }
  EXPECT_EQ(accepted, kMaxReceiveCompletions - 1);
  std::snprintf(text, sizeof text, "RNR_NAK psn=%06x msn=%u timer=12", 0x200 + accepted, accepted);
  s.Sends({text});
  Completion completion;
  for (uint32_t i = 0; i < accepted; ++i) ASSERT_TRUE(s.qp().PollCompletion(completion));
  std::snprintf(text, sizeof text, "SEND_ONLY psn=%06x len=0 ackreq", 0x200 + accepted);
  s.Receive(text).Completes({std::to_string(accepted) + " RECEIVE SUCCESS len=0"});
}

}  // namespace
}  // namespace uroce::transport
