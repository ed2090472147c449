// SPDX-License-Identifier: Apache-2.0
// Unreliable connections: docs/protocol/transport.md, section 9, and what sections 1 and 6.1 say of
// them.
#include <gtest/gtest.h>

#include "pipeline/transport/unreliable_queue_pair.h"
#include "tests/transport/script/unreliable_script.h"

namespace uroce::transport {
namespace {

using UcScript = UnreliableScript<UcQueuePair>;

// [9.send 2.psn.wrap] Opcodes of the service, no AckReq; RETH in the first packet.
TEST(Uc, SegmentsMessagesAndAsksForNoAck) {
  UcScript s({.attributes = {.path_mtu_bytes = 1024, .sq_psn = wire::Psn(0xffffff)}});
  s.Post(Write(2500)).Post(SendImm(8, 0xa1b2c3d4)).Post(Send(0));
  s.Polls("UC_WRITE_FIRST psn=ffffff len=1024").Leaves();
  EXPECT_EQ(s.sent().header.reth.length_bytes, 2500u);
  s.Sends({"UC_WRITE_MIDDLE psn=000000 len=1024", "UC_WRITE_LAST psn=000001 len=452",
           "UC_SEND_ONLY_WITH_IMM psn=000002 len=8 imm=a1b2c3d4", "UC_SEND_ONLY psn=000003 len=0"});
  s.Completes({"0 WRITE SUCCESS", "1 SEND SUCCESS", "2 SEND SUCCESS"});
}

// [9.complete] Not before: the program may change the bytes after a completion.
TEST(Uc, AWorkIsCompleteWhenTheBytesOfItsLastPacketWereRead) {
  UcScript s;
  s.Post(Send(1500)).Post(Send(8)).Polls("UC_SEND_FIRST psn=000100 len=1024").Leaves().Nothing();
  s.Polls("UC_SEND_LAST psn=000101 len=476").Nothing().Quiet().Leaves();
  s.Completes({"0 SEND SUCCESS"}).Sends({"UC_SEND_ONLY psn=000102 len=8"});
}

// [12.signaled]
TEST(Uc, UnsignaledWorksCompleteSilently) {
  UcScript s({.signal_all = false});
  SendWork signaled = Send(8);
  signaled.signaled = true;
  s.Post(Send(8)).Post(signaled);
  s.Sends({"UC_SEND_ONLY psn=000100 len=8", "UC_SEND_ONLY psn=000101 len=8"});
  s.Completes({"1 SEND SUCCESS"});
  EXPECT_EQ(s.qp().post_room(), 128u);
}

// [9.opcodes 6.1.sqe]
TEST(Uc, OtherOperationsFailWithLocQpOpErr) {
  for (SendWork work :
       {Read(8), FetchAdd(1), CompareSwap(1, 2), AtomicWrite(), SendInvalidate(8, 1)}) {
    UcScript s;
    s.Post(work).Quiet().State(QpState::kSqe);
    Completion completion;
    ASSERT_TRUE(s.qp().PollCompletion(completion));
    EXPECT_EQ(completion.status, WcStatus::kLocQpOpErr);
  }
}

// [3.1.7.length]
TEST(Uc, AMessageTooLongFailsWithLocLenErr) {
  UcScript s;
  s.Post(Write((1u << 31) + 1)).Quiet().Completes({"0 WRITE LOC_LEN_ERR"}).State(QpState::kSqe);
}

// [6.1.sqe] The receive side keeps working; what was posted meanwhile flushes too; RTS goes on.
TEST(Uc, AGatherErrorStopsTheSendQueueAlone) {
  UcScript s;
  s.Post(Send(8))
      .Post(Send(2000))
      .Post(Send(8))
      .Sends({"UC_SEND_ONLY psn=000100 len=8", "UC_SEND_FIRST psn=000101 len=1024",
              "UC_SEND_LAST psn=000102 len=976", "UC_SEND_ONLY psn=000103 len=8"});
  s.Completes({"0 SEND SUCCESS", "1 SEND SUCCESS", "2 SEND SUCCESS"});
  s.Post(Send(2000)).Post(Send(8)).Polls("UC_SEND_FIRST psn=000104 len=1024").Leaves();
  s.Polls("UC_SEND_LAST psn=000105 len=976").GatherFails().State(QpState::kSqe).Quiet();
  s.Post(Send(8)).PostReceive().Receive("UC_SEND_ONLY psn=000200 len=8");
  s.Completes({"3 SEND LOC_PROT_ERR", "4 SEND WR_FLUSH_ERR", "5 SEND WR_FLUSH_ERR",
               "0 RECEIVE SUCCESS len=8"});
  s.Modify(QpState::kRts).Post(Send(8)).Sends({"UC_SEND_ONLY psn=000105 len=8"});
  s.Completes({"6 SEND SUCCESS"});
}

// [6.1.sqe] Works that were to flush flush, even if the worker did not poll before RTS.
TEST(Uc, LeavingSqeDoesNotReviveFlushedWorks) {
  UcScript s;
  s.Post(Read(8)).Post(Send(8)).Quiet().Modify(QpState::kRts).Post(Send(8)).Quiet();
  s.Completes({"0 READ LOC_QP_OP_ERR", "1 SEND WR_FLUSH_ERR"});
  s.Sends({"UC_SEND_ONLY psn=000100 len=8"}).Completes({"2 SEND SUCCESS"});
}

// [1.sqd 1.sqd.drained]
TEST(Uc, SqdFinishesTheMessageUnderWay) {
  UcScript s;
  s.Post(Send(2000)).Post(Send(8)).Polls("UC_SEND_FIRST psn=000100 len=1024").Leaves();
  s.Modify(QpState::kSqd).Raises({}).Sends({"UC_SEND_LAST psn=000101 len=976"});
  s.Raises({QpEvent::kSqDrained}).Modify(QpState::kRts);
  s.Sends({"UC_SEND_ONLY psn=000102 len=8"});
}

// [7.bind 6.bind]
TEST(Uc, LocalWorksHaveTheirTurn) {
  UcScript s;
  LocalEffect local;
  s.Post(Send(8)).Post(Bind()).Post(LocalInvalidate(7)).Post(Send(8));
  EXPECT_FALSE(s.qp().PollLocal(local));
  s.Sends({"UC_SEND_ONLY psn=000100 len=8"});
  ASSERT_TRUE(s.qp().PollLocal(local));
  EXPECT_EQ(local.kind, LocalEffect::Kind::kBind);
  s.Quiet().qp().OnLocalDone(EffectOutcome::kDone);
  ASSERT_TRUE(s.qp().PollLocal(local));
  EXPECT_EQ(local.rkey, Rkey(7));
  s.qp().OnLocalDone(EffectOutcome::kInvalidateFailed);
  s.State(QpState::kSqe)
      .Completes({"0 SEND SUCCESS", "1 BIND_WINDOW SUCCESS", "2 LOCAL_INVALIDATE LOC_QP_OP_ERR",
                  "3 SEND WR_FLUSH_ERR"});
}

// [9.receive 12.length]
TEST(Uc, ReceivesSendsAndWrites) {
  UcScript s;
  s.PostReceive().PostReceive();
  s.Receive("UC_SEND_FIRST psn=000200 len=1024").Does("place_receive slot=0 at=0 len=1024");
  s.Receive("UC_SEND_LAST psn=000201 len=10 se").Does("place_receive slot=0 at=1024 len=10");
  s.Receive("UC_WRITE_FIRST psn=000202 len=1024 total=1500 va=1000 rkey=2a");
  s.Does("place_remote rkey=2a va=1000 len=1024 check=1500");
  s.Receive("UC_WRITE_LAST_WITH_IMM psn=000203 len=476 imm=00000005");
  s.Does("place_remote rkey=2a va=1400 len=476 check=476").Quiet();
  s.Completes({"0 RECEIVE SUCCESS len=1034 se", "1 RECEIVE_WRITE SUCCESS len=1500 imm=00000005"});
}

// [9.restart 9.rewind] The next message has the same receive work, from its start.
TEST(Uc, AGapDropsTheMessageUpToTheNextFirst) {
  UcScript s;
  s.PostReceive().Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Receive("UC_SEND_MIDDLE psn=000202 len=1024", ReceiveResult::kOutOfSequence).Does("");
  s.Receive("UC_SEND_LAST psn=000203 len=8", ReceiveResult::kOutOfSequence);
  s.Receive("UC_SEND_FIRST psn=000204 len=1024").Does("place_receive slot=0 at=0 len=1024");
  s.Receive("UC_SEND_LAST psn=000205 len=8").Completes({"0 RECEIVE SUCCESS len=1032"});
  s.State(QpState::kRts);
}

// [9.restart] The last packet of one message and the next message's first are lost.
TEST(Uc, ALostEndIsNoticedByTheNextFirst) {
  UcScript s;
  s.PostReceive().Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Receive("UC_SEND_ONLY psn=000202 len=8").Completes({"0 RECEIVE SUCCESS len=8"});
  s.Receive("UC_WRITE_ONLY psn=000203 len=8 va=1000 rkey=2a");
  EXPECT_EQ(s.counters().out_of_sequence, 1u);
}

// [9.restart] The missing packet coming late revives nothing.
TEST(Uc, APacketThatComesLateDoesNotReviveItsMessage) {
  UcScript s;
  s.PostReceive().Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Receive("UC_SEND_LAST psn=000202 len=8", ReceiveResult::kOutOfSequence);
  s.Receive("UC_SEND_MIDDLE psn=000201 len=1024", ReceiveResult::kOutOfSequence).Nothing();
}

// [9.restart] A sender that gave its message up begins the next one at the next PSN.
TEST(Uc, AFirstInsideAMessageBeginsANewMessage) {
  UcScript s;
  s.PostReceive().Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Receive("UC_SEND_ONLY psn=000201 len=8").Completes({"0 RECEIVE SUCCESS len=8"});
}

// [9.order] Opcodes that do not continue the message.
TEST(Uc, AWrongOpcodeDropsTheMessage) {
  UcScript s;
  s.PostReceive().Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Receive("UC_WRITE_MIDDLE psn=000201 len=1024", ReceiveResult::kOutOfSequence);
  s.Receive("UC_SEND_LAST psn=000202 len=8", ReceiveResult::kOutOfSequence).Nothing();
}

// [9.errors] Nothing is answered; the queue pair stays, and the receive work waits.
TEST(Uc, ErrorsOfAMessageDropIt) {
  for (const char* packet :
       {"UC_SEND_ONLY psn=000200 len=1025", "UC_SEND_FIRST psn=000200 len=1000",
        "UC_WRITE_ONLY psn=000200 len=8 total=9", "UC_WRITE_FIRST psn=000200 len=1024 total=8"}) {
    UcScript s;
    s.PostReceive().Receive(packet, ReceiveResult::kRefused).Does("").Quiet().Nothing();
    s.State(QpState::kRts).Receive("UC_SEND_ONLY psn=000201 len=8");
    s.Completes({"0 RECEIVE SUCCESS len=8"});
    EXPECT_EQ(s.counters().dropped_messages, 1u);
  }
}

// [9.errors]
TEST(Uc, AMissingRightDropsTheMessage) {
  UcScript s({.attributes = {.remote_write = false, .rq_psn = wire::Psn(0x200)}});
  s.Receive("UC_WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a", ReceiveResult::kRefused).Raises({});
}

// [9.errors] What was placed stays; the rest is not.
TEST(Uc, AKeyThatIsWrongDropsTheMessage) {
  UcScript s;
  s.Receive("UC_WRITE_FIRST psn=000200 len=1024 total=2000 va=1000 rkey=2a");
  s.NextOutcome(EffectOutcome::kRemoteAccess);
  s.Receive("UC_WRITE_LAST psn=000201 len=976").State(QpState::kRts).Raises({});
  s.Receive("UC_WRITE_ONLY psn=000202 len=8 va=1000 rkey=2a");
  EXPECT_EQ(s.counters().resp_remote_access_errors, 1u);
}

// [9.errors] A SEND longer than its receive work.
TEST(Uc, AMessageTooLongForItsReceiveWorkIsDropped) {
  UcScript s;
  s.PostReceive(1030).Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Receive("UC_SEND_LAST psn=000201 len=7", ReceiveResult::kTooLong);
  s.Receive("UC_SEND_ONLY psn=000202 len=8").Completes({"0 RECEIVE SUCCESS len=8"});
}

// [9.no-receive]
TEST(Uc, WithoutAReceiveWorkTheMessageIsDropped) {
  UcScript s;
  s.Receive("UC_SEND_FIRST psn=000200 len=1024", ReceiveResult::kNoReceive).PostReceive();
  s.Receive("UC_SEND_LAST psn=000201 len=8", ReceiveResult::kOutOfSequence);
  UcScript write;
  write.Receive("UC_WRITE_ONLY_WITH_IMM psn=000200 len=8 va=1000 rkey=2a imm=00000001",
                ReceiveResult::kNoReceive);
  write.Does("").Quiet();
  EXPECT_EQ(write.counters().out_of_buffer, 1u);
}

// [9.local] The program's own mistake is told to it.
TEST(Uc, AReceiveWorkThatCannotBeFilledEndsTheQueuePair) {
  UcScript key;
  key.PostReceive().PostReceive().NextOutcome(EffectOutcome::kLocalProtection);
  key.Receive("UC_SEND_ONLY psn=000200 len=8").State(QpState::kErr);
  key.Completes({"0 RECEIVE LOC_PROT_ERR", "1 RECEIVE WR_FLUSH_ERR"});
  UcScript malformed;
  malformed.PostReceive(64, true).Receive("UC_SEND_ONLY psn=000200 len=8", ReceiveResult::kFailed);
  malformed.State(QpState::kErr).Completes({"0 RECEIVE LOC_QP_OP_ERR"});
}

// [9.opcodes 4.1.1] Dropped; the connection goes on.
TEST(Uc, IgnoresWhatIsNoRequestOfItsService) {
  UcScript s;
  for (const char* packet : {"SEND_ONLY psn=000200 len=8", "READ_REQUEST psn=000200 len=8",
                             "ACK psn=000100 msn=1", "UD_SEND_ONLY psn=000200 len=8"}) {
    s.Receive(packet, ReceiveResult::kMalformed);
  }
  s.Receive("UC_WRITE_ONLY psn=000200 len=8 va=1000 rkey=2a");
}

// [1.drop 1.reset 6.1.flush 6.1.established]
TEST(Uc, StatesDropFlushAndForget) {
  UcScript s({.state = QpState::kInit});
  s.PostReceive().Receive("UC_SEND_ONLY psn=000200 len=8", ReceiveResult::kBadState);
  s.Modify(QpState::kRtr).Receive("UC_SEND_FIRST psn=000200 len=1024");
  s.Raises({QpEvent::kCommEst}).Modify(QpState::kRts).Post(Send(8)).Modify(QpState::kErr).Quiet();
  s.Completes({"0 SEND WR_FLUSH_ERR", "0 RECEIVE WR_FLUSH_ERR"});
  s.Post(Send(8)).Completes({"1 SEND WR_FLUSH_ERR"});
  s.Modify(QpState::kReset).Modify(QpState::kInit).Modify(QpState::kRtr).Modify(QpState::kRts);
  s.Post(Send(8)).Sends({"UC_SEND_ONLY psn=000100 len=8"});
  s.PostReceive().Receive("UC_SEND_ONLY psn=000200 len=8");
  s.Completes({"2 SEND SUCCESS", "1 RECEIVE SUCCESS len=8"});
}

}  // namespace
}  // namespace uroce::transport
