// SPDX-License-Identifier: Apache-2.0
// Unreliable datagrams: docs/protocol/transport.md, section 10, and what sections 6.1 and 11 say of
// them.
#include <gtest/gtest.h>

#include "pipeline/transport/unreliable_queue_pair.h"
#include "tests/transport/script/unreliable_script.h"

namespace uroce::transport {
namespace {

using UdScript = UnreliableScript<UdQueuePair>;

SendWork To(uint32_t qpn, uint32_t qkey, SendWork work) {
  work.path = 3;
  work.remote_qpn = Qpn(qpn);
  work.remote_qkey = qkey;
  return work;
}

// [10.send 10.psn]
TEST(Ud, ADatagramGoesWhereItsWorkSays) {
  UdScript s({.attributes = {.sq_psn = wire::Psn(0xffffff), .qkey = 0x11}});
  s.Post(To(0x123, 0x22, Send(1024))).Post(To(0xffffff, 0x33, SendImm(0, 0xa1b2c3d4)));
  s.Polls("UD_SEND_ONLY psn=ffffff len=1024").Leaves();
  EXPECT_EQ(s.sent().path, 3u);
  EXPECT_EQ(s.sent().header.dest_qpn, Qpn(0x123));
  EXPECT_EQ(s.sent().header.deth.qkey, 0x22u);
  EXPECT_EQ(s.sent().header.deth.source_qpn, Qpn(0x77));
  s.Sends({"UD_SEND_ONLY_WITH_IMM psn=000000 len=0 imm=a1b2c3d4"});
  s.Completes({"0 SEND SUCCESS", "1 SEND SUCCESS"});
}

// [10.qkey.own]
TEST(Ud, AQkeyWithItsHighBitStandsForTheQueuePairsOwn) {
  UdScript s;
  s.Post(To(0x123, 0x80000000, Send(8))).Polls("UD_SEND_ONLY psn=000100 len=8");
  EXPECT_EQ(s.sent().header.deth.qkey, 0x11u);
}

// [10.length 6.1.sqe] Nothing leaves.
TEST(Ud, AMessageBeyondTheMtuFailsWithLocLenErr) {
  UdScript s;
  s.Post(Send(1025)).Post(Send(8)).Quiet().State(QpState::kSqe);
  s.Completes({"0 SEND LOC_LEN_ERR", "1 SEND WR_FLUSH_ERR"});
  s.Modify(QpState::kRts).Post(Send(8)).Sends({"UD_SEND_ONLY psn=000100 len=8"});
}

// [10.opcodes]
TEST(Ud, OtherOperationsFailWithLocQpOpErr) {
  for (SendWork work : {Write(8), WriteImm(8, 1), Read(8), FetchAdd(1), SendInvalidate(8, 1),
                        Bind(), LocalInvalidate(1)}) {
    UdScript s;
    s.Post(work).Quiet().State(QpState::kSqe);
    Completion completion;
    ASSERT_TRUE(s.qp().PollCompletion(completion));
    EXPECT_EQ(completion.status, WcStatus::kLocQpOpErr);
  }
}

// [6.1.sqe] The PSN of a datagram that never left is the next one's.
TEST(Ud, AGatherErrorStopsTheSendQueueAlone) {
  UdScript s;
  s.Post(Send(8)).Polls("UD_SEND_ONLY psn=000100 len=8").GatherFails().State(QpState::kSqe);
  s.PostReceive().Receive("UD_SEND_ONLY psn=000005 len=8 qkey=11 source=99");
  s.Completes({"0 SEND LOC_PROT_ERR", "0 RECEIVE SUCCESS len=48 from=000099 ipv6"});
  s.Modify(QpState::kRts).Post(Send(8)).Sends({"UD_SEND_ONLY psn=000100 len=8"});
}

// [6.bad-work 6.1.sqe] An address handle of another protection domain is no error of memory.
TEST(Ud, AnAddressThatIsRefusedStopsTheSendQueueAlone) {
  UdScript s;
  s.Post(Send(8)).Post(Send(8)).Polls("UD_SEND_ONLY psn=000100 len=8").AddressIsRefused();
  s.State(QpState::kSqe).Completes({"0 SEND LOC_QP_OP_ERR", "1 SEND WR_FLUSH_ERR"});
  s.Modify(QpState::kRts).Post(Send(8)).Sends({"UD_SEND_ONLY psn=000100 len=8"});
}

// [10.receive 10.psn] 40 bytes in front; any PSN will do.
TEST(Ud, APayloadIsPlacedBehindTheGrhArea) {
  UdScript s;
  s.PostReceive().PostReceive();
  s.Receive("UD_SEND_ONLY psn=abcdef len=100 qkey=11 source=99 se");
  s.Does("place_receive slot=0 at=40 len=100 grh");
  s.Receive("UD_SEND_ONLY_WITH_IMM psn=000001 len=0 qkey=11 source=98 imm=01020304");
  s.Does("place_receive slot=1 at=40 len=0 grh").Quiet();
  s.Completes({"0 RECEIVE SUCCESS len=140 from=000099 ipv6 se",
               "1 RECEIVE SUCCESS len=40 imm=01020304 from=000098 ipv6"});
}

// [10.qkey]
TEST(Ud, AnotherQkeyIsDroppedAndCounted) {
  UdScript s;
  s.PostReceive().Receive("UD_SEND_ONLY psn=000001 len=8 qkey=12", ReceiveResult::kBadQkey);
  s.Does("").Nothing().State(QpState::kRts);
  EXPECT_EQ(s.counters().qkey_viol, 1u);
  s.Receive("UD_SEND_ONLY psn=000002 len=8 qkey=11 source=99");
  s.Completes({"0 RECEIVE SUCCESS len=48 from=000099 ipv6"});
}

// [10.no-receive]
TEST(Ud, WithoutAReceiveWorkADatagramIsDropped) {
  UdScript s;
  s.Receive("UD_SEND_ONLY psn=000001 len=8 qkey=11", ReceiveResult::kNoReceive).Quiet();
  EXPECT_EQ(s.counters().out_of_buffer, 1u);
}

// [10.too-small] The 40 bytes count.
TEST(Ud, ADatagramThatDoesNotFitIsDroppedAndTheReceiveWorkKept) {
  UdScript s;
  s.PostReceive(47).Receive("UD_SEND_ONLY psn=000001 len=8 qkey=11", ReceiveResult::kTooLong);
  s.Nothing().Receive("UD_SEND_ONLY psn=000002 len=7 qkey=11 source=99");
  s.Completes({"0 RECEIVE SUCCESS len=47 from=000099 ipv6"});
}

// [10.too-small.srq]
TEST(Ud, AReceiveWorkOfASharedQueueThatIsTooSmallCompletesInError) {
  UdScript s({.shared_receive = true});
  s.PostReceive(47).Receive("UD_SEND_ONLY psn=000001 len=8 qkey=11", ReceiveResult::kTooLong);
  s.Completes({"0 RECEIVE LOC_LEN_ERR"}).State(QpState::kRts);
}

// [10.local]
TEST(Ud, AReceiveWorkThatCannotBeFilledEndsTheQueuePair) {
  UdScript s;
  s.PostReceive().PostReceive().Post(Send(8)).NextOutcome(EffectOutcome::kLocalProtection);
  s.Receive("UD_SEND_ONLY psn=000001 len=8 qkey=11").State(QpState::kErr);
  s.Completes({"0 SEND WR_FLUSH_ERR", "0 RECEIVE LOC_PROT_ERR", "1 RECEIVE WR_FLUSH_ERR"});
}

// [6.1.last-wqe]
TEST(Ud, ErrTellsThatNoMoreOfASharedQueueWillBeTaken) {
  UdScript s({.shared_receive = true});
  s.Modify(QpState::kErr).Raises({QpEvent::kLastWqeReached}).Raises({});
}

// [4.1.1 1.drop]
TEST(Ud, IgnoresOtherServicesAndStatesThatDoNotReceive) {
  UdScript s;
  s.PostReceive().Receive("UC_SEND_ONLY psn=000001 len=8", ReceiveResult::kMalformed);
  s.Modify(QpState::kReset);
  s.Receive("UD_SEND_ONLY psn=000001 len=8 qkey=11", ReceiveResult::kBadState).Nothing();
}

}  // namespace
}  // namespace uroce::transport
