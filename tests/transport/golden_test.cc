// SPDX-License-Identifier: Apache-2.0
// One fault at a time, as recorded between two Linux 6.1 rdma_rxe hosts (protocol/golden/
// linux-rxe-4-loss.txt and linux-rxe-5-rnr.txt): our requester against the responses of theirs, and
// our responder against their requests. PSNs are those of the traces, times in ns.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kAckTimeoutNs = 67'108'864;

ScriptConfig At(uint32_t psn) {
  return {.sq_psn = psn, .rq_psn = psn, .timeout = 14, .retry_count = 6};
}

// [3.2.read.retried 3.2.read.gap] Case 1: a lost MIDDLE; the responder goes on with MIDDLE where
// the tail was asked for.
TEST(GoldenRequester, ReadGoesOnWithMiddleAfterALostMiddle) {
  Script s(At(0x1100));
  s.At(0).Post(Read(5000, 0x8000)).Sends({"READ_REQUEST psn=001100 len=5000 ackreq"});
  s.At(4 * kMs).Receive("READ_RESPONSE_FIRST psn=001100 len=1024 msn=1");
  s.At(40 * kMs).Receive("READ_RESPONSE_MIDDLE psn=001101 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=001103 len=1024").Does("");
  s.SendsNext("READ_REQUEST psn=001102 len=2952 ackreq");
  EXPECT_EQ(s.sent().header.reth.va, 0x8800u);
  s.Receive("READ_RESPONSE_LAST psn=001104 len=904 msn=1").Does("").Quiet();
  s.Receive("READ_RESPONSE_MIDDLE psn=001102 len=1024").Does("place_send slot=0 at=2048 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=001103 len=1024").Does("place_send slot=0 at=3072 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=001104 len=904 msn=1")
      .Does("place_send slot=0 at=4096 len=904");
  s.Completes({"0 READ SUCCESS"});
}

// [3.2.read.retried 3.4.read] Case 2: a lost LAST is asked for after the timeout, and LAST answers
// alone.
TEST(GoldenRequester, ReadEndsWithLastAfterALostLast) {
  Script s(At(0x1200));
  s.At(0).Post(Read(5000, 0x8000)).Sends({"READ_REQUEST psn=001200 len=5000 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=001200 len=1024 msn=1");
  s.Receive("READ_RESPONSE_MIDDLE psn=001201 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=001202 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=001203 len=1024").Quiet();
  s.At(kAckTimeoutNs).SendsNext("READ_REQUEST psn=001204 len=904 ackreq");
  EXPECT_EQ(s.sent().header.reth.va, 0x9000u);
  s.Receive("READ_RESPONSE_LAST psn=001204 len=904 msn=1").Completes({"0 READ SUCCESS"});
}

// [3.2.read.retried] Case 4: a replay that starts with FIRST is as good.
TEST(GoldenRequester, ReadGoesOnWithFirst) {
  Script s(At(0x1400));
  s.At(0).Post(Read(5000, 0x8000)).Sends({"READ_REQUEST psn=001400 len=5000 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=001400 len=1024 msn=1");
  s.Receive("READ_RESPONSE_MIDDLE psn=001401 len=1024");
  s.At(kAckTimeoutNs).Sends({"READ_REQUEST psn=001402 len=2952 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=001402 len=1024 msn=1");
  s.Receive("READ_RESPONSE_MIDDLE psn=001403 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=001404 len=904 msn=1").Completes({"0 READ SUCCESS"});
}

// [3.2.nak.sequence 3.4.message] Case 5: NAK 0x60 in the middle of a WRITE.
TEST(GoldenRequester, WriteGoesBackToALostMiddle) {
  Script s(At(0x1500));
  s.Post(Write(5000, 0x9000));
  s.Sends({"WRITE_FIRST psn=001500 len=1024", "WRITE_MIDDLE psn=001501 len=1024",
           "WRITE_MIDDLE psn=001502 len=1024", "WRITE_MIDDLE psn=001503 len=1024",
           "WRITE_LAST psn=001504 len=904 ackreq"});
  s.Receive("NAK_SEQ psn=001502 msn=0");
  s.Sends({"WRITE_MIDDLE psn=001502 len=1024", "WRITE_MIDDLE psn=001503 len=1024",
           "WRITE_LAST psn=001504 len=904 ackreq"});
  s.Receive("ACK psn=001504 msn=1").Completes({"0 WRITE SUCCESS"});
}

// [3.2.ack 3.2.timeout] Case 6: duplicates are answered by ACKs inside the message before the last
// one.
TEST(GoldenRequester, AcksInsideTheMessageAreNoCompletion) {
  Script s(At(0x1600));
  s.At(0).Post(Write(5000, 0xa000));
  const Texts all = {"WRITE_FIRST psn=001600 len=1024", "WRITE_MIDDLE psn=001601 len=1024",
                     "WRITE_MIDDLE psn=001602 len=1024", "WRITE_MIDDLE psn=001603 len=1024",
                     "WRITE_LAST psn=001604 len=904 ackreq"};
  s.Sends(all).At(kAckTimeoutNs).Sends(all);
  for (int i = 0; i < 4; ++i) s.Receive("ACK psn=001603 msn=0").Nothing().Quiet();
  s.Receive("ACK psn=001604 msn=1").Completes({"0 WRITE SUCCESS"});
}

// [3.2.timeout] Case 8: the ACK is lost.
TEST(GoldenRequester, SendIsRepeatedWhenItsAckIsLost) {
  Script s(At(0x1800));
  s.At(0).Post(Send(64)).Sends({"SEND_ONLY psn=001800 len=64 ackreq"});
  s.At(kAckTimeoutNs).Sends({"SEND_ONLY psn=001800 len=64 ackreq"});
  s.Receive("ACK psn=001800 msn=1").Completes({"0 SEND SUCCESS"});
}

// [3.2.nak.sequence 3.3.progress] Case 13: two NAKs, each with progress, and ACKs behind.
TEST(GoldenRequester, TwoGapsInOneMessage) {
  Script s(At(0x1d00));
  s.Post(Write(5000));
  s.SendsNext("WRITE_FIRST psn=001d00 len=1024");
  s.Sends({"WRITE_MIDDLE psn=001d01 len=1024", "WRITE_MIDDLE psn=001d02 len=1024",
           "WRITE_MIDDLE psn=001d03 len=1024", "WRITE_LAST psn=001d04 len=904 ackreq"});
  s.Receive("NAK_SEQ psn=001d01 msn=0");
  s.Sends({"WRITE_MIDDLE psn=001d01 len=1024", "WRITE_MIDDLE psn=001d02 len=1024",
           "WRITE_MIDDLE psn=001d03 len=1024", "WRITE_LAST psn=001d04 len=904 ackreq"});
  s.Receive("NAK_SEQ psn=001d02 msn=0");
  s.Sends({"WRITE_MIDDLE psn=001d02 len=1024", "WRITE_MIDDLE psn=001d03 len=1024",
           "WRITE_LAST psn=001d04 len=904 ackreq"});
  s.Receive("ACK psn=001d01 msn=0").Result(PacketResult::kGhost).Nothing();
  s.Receive("ACK psn=001d04 msn=1").Completes({"0 WRITE SUCCESS"});
}

// [3.2.ack] Case 14: one ACK stands for those that were lost.
TEST(GoldenRequester, OneAckCompletesThreeSends) {
  Script s(At(0x1e00));
  s.Post(Send(64)).Post(Send(64)).Post(Send(64));
  s.Sends({"SEND_ONLY psn=001e00 len=64 ackreq", "SEND_ONLY psn=001e01 len=64 ackreq",
           "SEND_ONLY psn=001e02 len=64 ackreq"});
  s.Receive("ACK psn=001e02 msn=3");
  s.Completes({"0 SEND SUCCESS", "1 SEND SUCCESS", "2 SEND SUCCESS"});
}

// [3.2.implied] Case 16: the ACK of the WRITE passes over the READ whose response was lost.
TEST(GoldenRequester, AnAckPastALostReadResponse) {
  Script s(At(0x2000));
  s.Post(Read(64, 0x2000)).Post(Write(64, 0x2000));
  const Texts both = {"READ_REQUEST psn=002000 len=64 ackreq",
                      "WRITE_ONLY psn=002001 len=64 ackreq"};
  s.Sends(both).Receive("ACK psn=002001 msn=2").Nothing().Sends(both);
  s.Receive("READ_RESPONSE_ONLY psn=002000 len=64 msn=2").Receive("ACK psn=002001 msn=2");
  s.Completes({"0 READ SUCCESS", "1 WRITE SUCCESS"});
}

// [3.2.future] Case 24: an ACK beyond the last PSN sent completes nothing.
TEST(GoldenRequester, AFutureAckIsIgnored) {
  Script s(At(0x2800));
  s.At(0).Post(Send(64)).Sends({"SEND_ONLY psn=002800 len=64 ackreq"});
  s.Receive("ACK psn=002805 msn=1").Nothing().Deadline(Nanos(kAckTimeoutNs));
  s.At(kAckTimeoutNs).Sends({"SEND_ONLY psn=002800 len=64 ackreq"});
}

// [3.2.read.gap] Case 25: the replayed MIDDLE is lost as well.
TEST(GoldenRequester, AMiddleLostTwice) {
  Script s(At(0x2900));
  s.At(0).Post(Read(5000, 0x2000)).Sends({"READ_REQUEST psn=002900 len=5000 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=002900 len=1024 msn=1");
  s.Receive("READ_RESPONSE_MIDDLE psn=002901 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=002903 len=1024");
  s.Sends({"READ_REQUEST psn=002902 len=2952 ackreq"});
  // The rest of the replay: still the same loss for all that can be told, so the timer decides.
  s.At(10 * kMs).Receive("READ_RESPONSE_MIDDLE psn=002903 len=1024").Does("").Quiet();
  s.Receive("READ_RESPONSE_LAST psn=002904 len=904 msn=1").Does("").Quiet();
  s.At(10 * kMs + kAckTimeoutNs).Sends({"READ_REQUEST psn=002902 len=2952 ackreq"});
  s.Receive("READ_RESPONSE_MIDDLE psn=002902 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=002903 len=1024");
  s.Receive("READ_RESPONSE_LAST psn=002904 len=904 msn=1").Completes({"0 READ SUCCESS"});
}

// [3.2.rnr.wait] linux-rxe-5-rnr: NAK 0x60 right behind an RNR NAK.
TEST(GoldenRequester, ASequenceNakBehindAnRnrNakIsIgnored) {
  Script s(At(0x100000));
  s.At(0).Post(Send(3000));
  const Texts all = {"SEND_FIRST psn=100000 len=1024", "SEND_MIDDLE psn=100001 len=1024",
                     "SEND_LAST psn=100002 len=952 ackreq"};
  s.Sends(all);
  s.Receive("RNR_NAK psn=100000 msn=1 timer=16").Receive("NAK_SEQ psn=100000 msn=1");
  s.Quiet().At(2'559'999).Quiet().At(2'560'000).Sends(all);
  s.Receive("ACK psn=100002 msn=2").Completes({"0 SEND SUCCESS"});
}

// [4.3.message] Case 6, the responder's end: what was lost is executed, the rest acknowledged
// again.
TEST(GoldenResponder, WriteRepeatedFromItsFirstPacket) {
  Script s(At(0x1600));
  s.Receive("WRITE_FIRST psn=001600 len=1024 total=5000 va=a000 rkey=2a");
  for (const char* psn : {"001601", "001602", "001603"}) {
    s.Receive(std::string("WRITE_MIDDLE psn=") + psn + " len=1024");
  }
  s.Receive("WRITE_FIRST psn=001600 len=1024 total=5000 va=a000 rkey=2a").Does("");
  for (const char* psn : {"001601", "001602", "001603"}) {
    s.Receive(std::string("WRITE_MIDDLE psn=") + psn + " len=1024").Does("");
  }
  s.Receive("WRITE_LAST psn=001604 len=904 ackreq")
      .Does("place_remote rkey=2a va=b000 len=904 check=904");
  s.Sends({"ACK psn=001604 msn=1"});
}

// [4.1.2.gap] Case 7: the first packet is lost.
TEST(GoldenResponder, SendWhoseFirstPacketIsLost) {
  Script s(At(0x1700));
  s.PostReceive(5000)
      .Receive("SEND_MIDDLE psn=001701 len=1024")
      .Sends({"NAK_SEQ psn=001700 msn=0"});
  s.Receive("SEND_FIRST psn=001700 len=1024");
  for (const char* psn : {"001701", "001702", "001703"}) {
    s.Receive(std::string("SEND_MIDDLE psn=") + psn + " len=1024");
  }
  s.Receive("SEND_LAST psn=001704 len=904 ackreq").Sends({"ACK psn=001704 msn=1"});
  s.Completes({"0 RECEIVE SUCCESS len=5000"});
}

// [4.3.read 4.3.message] Case 16, the responder's end: the replay carries the MSN of now, the ACK
// comes again.
TEST(GoldenResponder, ReadAndWriteRepeated) {
  Script s(At(0x2000));
  s.Receive("READ_REQUEST psn=002000 len=64 va=2000 rkey=2a ackreq");
  s.Sends({"READ_RESPONSE_ONLY psn=002000 len=64 msn=1"});
  s.Receive("WRITE_ONLY psn=002001 len=64 va=2000 rkey=2a ackreq").Sends({"ACK psn=002001 msn=2"});
  s.Receive("READ_REQUEST psn=002000 len=64 va=2000 rkey=2a ackreq");
  s.Receive("WRITE_ONLY psn=002001 len=64 va=2000 rkey=2a ackreq").Does("");
  s.Sends({"READ_RESPONSE_ONLY psn=002000 len=64 msn=2", "ACK psn=002001 msn=2"});
}

// [4.3.message 4.3.atomic] Cases 19, 20, 21: duplicates made by the wire.
TEST(GoldenResponder, DuplicatesMadeByTheWire) {
  Script s(At(0x2300));
  s.PostReceive().Receive("SEND_ONLY psn=002300 len=64 ackreq").Sends({"ACK psn=002300 msn=1"});
  s.Receive("SEND_ONLY psn=002300 len=64 ackreq").Sends({"ACK psn=002300 msn=1"});
  s.Completes({"0 RECEIVE SUCCESS len=64"});
  s.Receive("FETCH_ADD psn=002301 va=8 rkey=2a add=1 ackreq");
  s.Receive("FETCH_ADD psn=002301 va=8 rkey=2a add=1 ackreq").Does("");
  s.Sends({"ATOMIC_ACK psn=002301 msn=2 original=0"});
  s.Receive("FETCH_ADD psn=002302 va=8 rkey=2a add=0 ackreq");
  s.Sends({"ATOMIC_ACK psn=002302 msn=3 original=1"});
}

}  // namespace
}  // namespace uroce::transport
