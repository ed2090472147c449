// SPDX-License-Identifier: Apache-2.0
// What a requester puts on the wire: docs/protocol/transport.md, sections 3.1 and 5.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [3.1.1 3.1.5 2.psn.wrap] PSNs wrap at 2^24.
TEST(RequesterSend, SegmentsAWriteAcrossThePsnWrap) {
  Script s({.sq_psn = 0xffffff});
  s.At(0).Post(Write(2500));
  s.SendsNext("WRITE_FIRST psn=ffffff len=1024");
  EXPECT_EQ(s.sent().header.reth.va, 0x1000u);
  EXPECT_EQ(s.sent().header.reth.rkey, Rkey(0x2a));
  EXPECT_EQ(s.sent().header.reth.length_bytes, 2500u);
  EXPECT_EQ(s.sent().payload_source, TxPacket::Source::kSend);
  s.Sends({"WRITE_MIDDLE psn=000000 len=1024", "WRITE_LAST psn=000001 len=452 ackreq"});
  EXPECT_EQ(s.sent().local.offset_bytes, 2048u);
  EXPECT_FALSE(s.sent().retransmission);
  s.Nothing();
  s.At(5'000).Receive("ACK psn=000001 msn=1").Completes({"0 WRITE SUCCESS"});
}

// [3.1.1] A message of exactly one path MTU is ONLY, of exactly two has no MIDDLE.
TEST(RequesterSend, SegmentsAtMultiplesOfThePathMtu) {
  Script s;
  s.Post(Send(1024)).Sends({"SEND_ONLY psn=000100 len=1024 ackreq"});
  s.Post(Send(2048));
  s.Sends({"SEND_FIRST psn=000101 len=1024", "SEND_LAST psn=000102 len=1024 ackreq"});
}

// [3.1.1] docs/protocol/wire-format.md, section 5: immediate data and the key to invalidate ride on
// the last packet.
TEST(RequesterSend, PutsImmediateAndKeyOnTheLastPacket) {
  Script s({.path_mtu = 256});
  s.Post(SendImm(300, 0xa1b2c3d4)).Post(SendInvalidate(300, 0x08000127));
  s.Post(WriteImm(300, 0x01020304)).Post(SendImm(1, 5)).Post(SendInvalidate(1, 6));
  s.Post(WriteImm(1, 7));
  s.Sends({"SEND_FIRST psn=000100 len=256",
           "SEND_LAST_WITH_IMM psn=000101 len=44 imm=a1b2c3d4 ackreq",
           "SEND_FIRST psn=000102 len=256",
           "SEND_LAST_WITH_INVALIDATE psn=000103 len=44 inv=08000127 ackreq",
           "WRITE_FIRST psn=000104 len=256",
           "WRITE_LAST_WITH_IMM psn=000105 len=44 imm=01020304 ackreq",
           "SEND_ONLY_WITH_IMM psn=000106 len=1 imm=00000005 ackreq",
           "SEND_ONLY_WITH_INVALIDATE psn=000107 len=1 inv=00000006 ackreq",
           "WRITE_ONLY_WITH_IMM psn=000108 len=1 imm=00000007 ackreq"});
}

// [5.empty] A message without bytes is one ONLY packet and takes one PSN.
TEST(RequesterSend, SendsEmptyMessagesAsOnePacket) {
  Script s;
  s.Post(Send(0)).Post(Write(0)).Post(Read(0)).Post(WriteImm(0, 1)).Post(Send(1));
  s.Sends({"SEND_ONLY psn=000100 len=0 ackreq", "WRITE_ONLY psn=000101 len=0 ackreq",
           "READ_REQUEST psn=000102 len=0 ackreq",
           "WRITE_ONLY_WITH_IMM psn=000103 len=0 imm=00000001 ackreq",
           "SEND_ONLY psn=000104 len=1 ackreq"});
  s.Receive("ACK psn=000101 msn=2").Receive("READ_RESPONSE_ONLY psn=000102 len=0 msn=3").Does("");
  s.Completes({"0 SEND SUCCESS", "1 WRITE SUCCESS", "2 READ SUCCESS"});
}

// [2.psn.read] A READ takes a PSN for each response, and the next request follows them.
TEST(RequesterSend, AReadTakesThePsnsOfItsResponses) {
  Script s({.sq_psn = 0xfffffe});
  s.Post(Read(5000)).Post(Write(64));
  s.Sends({"READ_REQUEST psn=fffffe len=5000 ackreq", "WRITE_ONLY psn=000003 len=64 ackreq"});
}

// [3.1.2] Compare is sent as 0 by a fetch and add.
TEST(RequesterSend, SendsAtomics) {
  Script s;
  s.Post(CompareSwap(5, 7)).Post(FetchAdd(9));
  s.SendsNext("COMPARE_SWAP psn=000100 compare=5 swap=7 ackreq");
  s.SendsNext("FETCH_ADD psn=000101 add=9 ackreq").Quiet();
  EXPECT_EQ(s.sent().header.atomic.compare, 0u);
  EXPECT_EQ(s.sent().header.atomic.va, 0x1000u);
  EXPECT_EQ(s.sent().header.atomic.rkey, Rkey(0x2a));
}

// [3.1.5] About every 32nd packet of a long message asks for an ACK.
TEST(RequesterSend, AsksForAnAckEvery32Packets) {
  Script s({.path_mtu = 256});
  s.Post(Write(70 * 256));
  Texts expected;
  char text[80];
  for (int i = 0; i < 70; ++i) {
    std::snprintf(text, sizeof text, "WRITE_%s psn=%06x len=256%s",
                  i == 0 ? "FIRST" : (i == 69 ? "LAST" : "MIDDLE"), 0x100 + i,
                  i == 31 || i == 63 || i == 69 ? " ackreq" : "");
    expected.push_back(text);
  }
  s.Sends(expected);
}

// [3.1.5.window] The window is bounded, and its last packet asks for the ACK that opens it.
TEST(RequesterSend, StopsAtTheWindowAndAsksForAnAckThere) {
  Script s({.path_mtu = 256, .max_in_flight_packets = 3});
  s.Post(Write(5 * 256));
  s.Sends({"WRITE_FIRST psn=000100 len=256", "WRITE_MIDDLE psn=000101 len=256",
           "WRITE_MIDDLE psn=000102 len=256 ackreq"});
  s.Receive("ACK psn=000100 msn=0").Sends({"WRITE_MIDDLE psn=000103 len=256 ackreq"});
  s.Receive("ACK psn=000103 msn=0").Sends({"WRITE_LAST psn=000104 len=256 ackreq"});
}

// [3.1.3] Later works wait too, order is kept.
TEST(RequesterSend, StallsAtMaxRdAtomic) {
  Script s({.max_rd_atomic = 2});
  s.Post(Read(8)).Post(FetchAdd(1)).Post(Read(8)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "FETCH_ADD psn=000101 add=1 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1");
  s.Sends({"READ_REQUEST psn=000102 len=8 ackreq", "SEND_ONLY psn=000103 len=8 ackreq"});
}

// [3.1.3] With none allowed a READ fails locally, after all before it.
TEST(RequesterSend, AReadFailsWhereNoneIsAllowed) {
  Script s({.max_rd_atomic = 0});
  s.Post(Send(8)).Post(Read(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Nothing().State(QpState::kRts);
  s.Receive("ACK psn=000100 msn=1").State(QpState::kErr);
  s.Completes({"0 SEND SUCCESS", "1 READ LOC_QP_OP_ERR", "2 SEND WR_FLUSH_ERR"});
}

// [3.1.4] A fenced work waits for READs and atomics, not for WRITEs.
TEST(RequesterSend, AFencedWorkWaitsForReadsAndAtomics) {
  Script s;
  SendWork fenced = Send(8);
  fenced.fence = true;
  s.Post(Read(8)).Post(FetchAdd(1)).Post(Write(8)).Post(fenced);
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "FETCH_ADD psn=000101 add=1 ackreq",
           "WRITE_ONLY psn=000102 len=8 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1").Quiet();
  s.Receive("ATOMIC_ACK psn=000101 msn=2 original=0");
  s.Sends({"SEND_ONLY psn=000103 len=8 ackreq"});
}

// [3.1.5.solicited] SE on the last packet, only of SENDs and of WRITEs with immediate.
TEST(RequesterSend, SetsSolicitedOnLastPacketsThatMakeACompletion) {
  Script s;
  for (SendWork work : {Send(1025), Write(8), WriteImm(8, 1), Read(8)}) {
    work.solicited = true;
    s.Post(work);
  }
  s.Sends({"SEND_FIRST psn=000100 len=1024", "SEND_LAST psn=000101 len=1 ackreq se",
           "WRITE_ONLY psn=000102 len=8 ackreq",
           "WRITE_ONLY_WITH_IMM psn=000103 len=8 imm=00000001 ackreq se",
           "READ_REQUEST psn=000104 len=8 ackreq"});
}

// [3.1.7 6.gather] The work whose bytes cannot be read fails; what was sent before it may succeed.
TEST(RequesterSend, AGatherErrorFailsItsWorkAfterThoseBefore) {
  Script s;
  s.Post(Send(8)).Post(Send(2000)).Post(Send(8));
  s.SendsNext("SEND_ONLY psn=000100 len=8 ackreq").SendsNext("SEND_FIRST psn=000101 len=1024");
  s.GatherFails().Quiet().Nothing().State(QpState::kRts);
  s.Receive("ACK psn=000100 msn=1").State(QpState::kErr).Quiet();
  s.Completes({"0 SEND SUCCESS", "1 SEND LOC_PROT_ERR", "2 SEND WR_FLUSH_ERR"});
  EXPECT_EQ(s.counters().req_cqe_error, 1u);
  EXPECT_EQ(s.counters().req_cqe_flush_error, 1u);
}

// [3.1.7] The packet never left, so an acknowledgement of it is one beyond the last PSN sent.
TEST(RequesterSend, AGatherErrorTakesThePsnBack) {
  Script s;
  s.Post(Send(8)).Post(Send(8));
  s.SendsNext("SEND_ONLY psn=000100 len=8 ackreq").SendsNext("SEND_ONLY psn=000101 len=8 ackreq");
  s.GatherFails();
  s.Receive("ACK psn=000101 msn=2").Result(PacketResult::kGhost).Nothing();
  EXPECT_EQ(s.qp().next_send_psn(), wire::Psn(0x101));
}

// [3.1.7] With nothing under way before it the work fails at once.
TEST(RequesterSend, AGatherErrorOfTheOldestWorkFailsAtOnce) {
  Script s;
  s.Post(Write(2000)).SendsNext("WRITE_FIRST psn=000100 len=1024").GatherFails();
  s.State(QpState::kErr).Quiet().Completes({"0 WRITE LOC_PROT_ERR"}).Deadline(kNever);
}

// [6.bad-work] Reserved opcodes, and what the shell could not read.
TEST(RequesterSend, WorksThatCannotBeExecutedCompleteWithLocQpOpErr) {
  for (const WorkOpcode opcode :
       {static_cast<WorkOpcode>(10), static_cast<WorkOpcode>(14), WorkOpcode::kSend}) {
    Script s;
    SendWork work = Send(0);
    work.opcode = opcode;
    work.malformed = opcode == WorkOpcode::kSend;
    s.Post(Send(8)).Post(work);
    s.Sends({"SEND_ONLY psn=000100 len=8 ackreq"}).Nothing();
    s.Receive("ACK psn=000100 msn=1").State(QpState::kErr);
    Completion completion;
    ASSERT_TRUE(s.qp().PollCompletion(completion));
    EXPECT_EQ(completion.status, WcStatus::kSuccess);
    ASSERT_TRUE(s.qp().PollCompletion(completion));
    EXPECT_EQ(completion.status, WcStatus::kLocQpOpErr);
    s.Nothing();
  }
}

// [3.1.7.length] More than 2^31 bytes is LOC_LEN_ERR.
TEST(RequesterSend, AMessageTooLongCompletesWithLocLenErr) {
  Script s;
  s.Post(Write((1u << 31) + 1)).Quiet().Completes({"0 WRITE LOC_LEN_ERR"}).State(QpState::kErr);
}

// [3.1.5.window] How much answers a READ is max_rd_atomic's business: a READ does not close the
// window to other requests.
TEST(RequesterSend, ALongReadIsOnePacketOfTheWindow) {
  Script s({.path_mtu = 256, .max_in_flight_packets = 3});
  s.Post(Read(1 << 20)).Post(Write(600)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=1048576 ackreq", "WRITE_FIRST psn=001100 len=256",
           "WRITE_MIDDLE psn=001101 len=256 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=256 msn=1").Quiet();
}

// [3.1.5.window] It leaves the window with its last response, and comes back with a resend.
TEST(RequesterSend, AReadTakesItsPlaceInTheWindowUntilItIsComplete) {
  Script s({.path_mtu = 256, .max_in_flight_packets = 2});
  s.At(0).Post(Read(512)).Post(Read(512)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=512 ackreq", "READ_REQUEST psn=000102 len=512 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=256 msn=2").Quiet();
  s.At(67'108'864);
  s.Sends({"READ_REQUEST psn=000101 len=256 ackreq", "READ_REQUEST psn=000102 len=512 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=256 msn=2");
  s.Sends({"SEND_ONLY psn=000104 len=8 ackreq"});
}

// [2.psn.limit] Never more than 2^23 PSNs outstanding. One READ can take them all.
TEST(RequesterSend, NeverHasMoreThanHalfOfThePsnsOutstanding) {
  Script s({.path_mtu = 256});
  s.Post(Send(8)).Post(Read(1u << 31)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1");
  s.Sends({"READ_REQUEST psn=000101 len=2147483648 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=256 msn=2").Does("place_send slot=1 at=0 len=256");
}

// [12.signaled] Without sq_sig_all only signaled works make completions.
TEST(RequesterSend, UnsignaledWorksCompleteSilently) {
  Script s({.signal_all = false, .max_send_works = 2});
  SendWork signaled = Send(8);
  signaled.signaled = true;
  s.Post(Send(8)).Post(signaled);
  EXPECT_EQ(s.qp().post_room(), 0u);
  EXPECT_EQ(s.qp().Post(Send(8)), PostResult::kQueueFull);
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("ACK psn=000101 msn=2").Completes({"1 SEND SUCCESS"});
  EXPECT_EQ(s.qp().post_room(), 2u);
}

// The shell gathers by slot until the completion was polled.
TEST(RequesterSend, HoldsASlotUntilItsCompletionWasPolled) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  EXPECT_TRUE(s.qp().Holds(0));
  EXPECT_FALSE(s.qp().Holds(1));
  s.Receive("ACK psn=000100 msn=1");
  EXPECT_TRUE(s.qp().Holds(0));
  s.Completes({"0 SEND SUCCESS"});
  EXPECT_FALSE(s.qp().Holds(0));
}

}  // namespace
}  // namespace uroce::transport
