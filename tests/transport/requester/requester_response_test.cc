// SPDX-License-Identifier: Apache-2.0
// What responses do to a requester: docs/protocol/transport.md, section 3.2.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [3.2.ack 2.psn.wrap] Completes, in order, all works whose last PSN is not beyond P.
TEST(RequesterResponse, AnAckIsCumulative) {
  Script s({.sq_psn = 0xfffffe});
  s.Post(Send(8)).Post(Write(2000)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=fffffe len=8 ackreq", "WRITE_FIRST psn=ffffff len=1024",
           "WRITE_LAST psn=000000 len=976 ackreq", "SEND_ONLY psn=000001 len=8 ackreq"});
  s.Receive("ACK psn=ffffff msn=1").Completes({"0 SEND SUCCESS"});
  s.Receive("ACK psn=000001 msn=3").Completes({"1 WRITE SUCCESS", "2 SEND SUCCESS"});
}

// [3.2.future] Ignored, also by NAKs. golden/linux-rxe-4-loss, case 24.
TEST(RequesterResponse, IgnoresAResponseBeyondTheLastPsnSent) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  for (const char* text :
       {"ACK psn=000101 msn=1", "ACK psn=000105 msn=1", "NAK_SEQ psn=000101 msn=0",
        "NAK_INVALID_REQUEST psn=000101 msn=0", "RNR_NAK psn=000101 msn=0 timer=1",
        "READ_RESPONSE_ONLY psn=000101 len=8 msn=1"}) {
    s.Receive(text).Result(PacketResult::kGhost).Quiet().Nothing();
  }
  s.State(QpState::kRts).Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"});
}

// [3.2.past] Ignored, fatal NAKs too.
TEST(RequesterResponse, IgnoresAResponseOfThePast) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"});
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
  for (const char* text :
       {"ACK psn=000100 msn=1", "NAK_SEQ psn=000100 msn=0", "NAK_REMOTE_ACCESS psn=0000ff msn=0",
        "RNR_NAK psn=000100 msn=0 timer=1", "ATOMIC_ACK psn=000100 msn=1 original=0"}) {
    s.Receive(text).Result(PacketResult::kGhost).Quiet().Nothing();
  }
  s.State(QpState::kRts);
}

// [3.2.reserved] Ignored. 0x64 concerns another service.
TEST(RequesterResponse, IgnoresReservedSyndromes) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  for (const char* text : {"ACK psn=000100 msn=0 syndrome=40", "ACK psn=000100 msn=0 syndrome=80",
                           "ACK psn=000100 msn=0 syndrome=ff", "ACK psn=000100 msn=0 syndrome=64",
                           "ACK psn=000100 msn=0 syndrome=7f"}) {
    s.Receive(text).Result(PacketResult::kMalformed).Quiet().Nothing();
  }
  s.State(QpState::kRts);
}

// [2.msn.ignored] What the MSN says completes nothing and holds nothing back.
TEST(RequesterResponse, AcceptsAcksWithCreditsAndAnyMsn) {
  Script s;
  s.Post(Send(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("ACK psn=000101 msn=77 credits=0").Completes({"0 SEND SUCCESS", "1 SEND SUCCESS"});
}

// [3.2.implied] Resend from it, complete nothing later.
TEST(RequesterResponse, AnAckPastAReadIsAnImpliedNak) {
  Script s;
  s.Post(Send(8)).Post(Read(8)).Post(Send(8));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "READ_REQUEST psn=000101 len=8 ackreq",
           "SEND_ONLY psn=000102 len=8 ackreq"});
  s.Receive("ACK psn=000102 msn=3").Completes({"0 SEND SUCCESS"});
  s.Sends({"READ_REQUEST psn=000101 len=8 ackreq", "SEND_ONLY psn=000102 len=8 ackreq"});
  EXPECT_TRUE(s.sent().retransmission);
  EXPECT_EQ(s.counters().implied_nak_seq_err, 1u);
  EXPECT_EQ(s.counters().retransmitted_pkts, 2u);
  // A second such ACK belongs to the same loss.
  s.Receive("ACK psn=000102 msn=3").Quiet().Nothing();
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=8 msn=3").Receive("ACK psn=000102 msn=3");
  s.Completes({"1 READ SUCCESS", "2 SEND SUCCESS"});
}

// [3.2.implied]
TEST(RequesterResponse, AnAckPastAnAtomicIsAnImpliedNak) {
  Script s;
  s.Post(FetchAdd(1)).Post(Send(8));
  s.Sends({"FETCH_ADD psn=000100 add=1 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("ACK psn=000101 msn=2").Nothing();
  s.Sends({"FETCH_ADD psn=000100 add=1 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
}

// [3.2.implied 3.3.retries] An implied NAK counts as a retry.
TEST(RequesterResponse, ImpliedNaksExhaustTheRetries) {
  Script s({.retry_count = 0});
  s.Post(Read(8)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "SEND_ONLY psn=000101 len=8 ackreq"});
  s.Receive("ACK psn=000101 msn=2").State(QpState::kErr).Quiet();
  s.Completes({"0 READ RETRY_EXC_ERR", "1 SEND WR_FLUSH_ERR"});
}

// [3.2.nak.fatal 6.1.first] Success before it, its status, then the flush (section 6.1).
TEST(RequesterResponse, AFatalNakFailsTheWorkThatHoldsItsPsn) {
  const std::pair<const char*, const char*> kCases[] = {{"NAK_INVALID_REQUEST", "REM_INV_REQ_ERR"},
                                                        {"NAK_REMOTE_ACCESS", "REM_ACCESS_ERR"},
                                                        {"NAK_REMOTE_OPERATION", "REM_OP_ERR"}};
  for (const auto& [nak, status] : kCases) {
    Script s({.signal_all = false});
    SendWork signaled = Send(8);
    signaled.signaled = true;
    s.Post(signaled).Post(Write(2000)).Post(Send(8));
    s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "WRITE_FIRST psn=000101 len=1024",
             "WRITE_LAST psn=000102 len=976 ackreq", "SEND_ONLY psn=000103 len=8 ackreq"});
    s.Receive(std::string(nak) + " psn=000102 msn=1").State(QpState::kErr).Quiet();
    s.Deadline(kNever);
    // Errors make completions for unsignaled works too.
    s.Completes({"0 SEND SUCCESS", std::string("1 WRITE ") + status, "2 SEND WR_FLUSH_ERR"});
    s.Post(Send(8)).Completes({"3 SEND WR_FLUSH_ERR"}).Quiet();
  }
}

// [3.2.nak.fatal]
TEST(RequesterResponse, CountsFatalNaks) {
  Script access, invalid;
  access.Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  access.Receive("NAK_REMOTE_ACCESS psn=000100 msn=0");
  EXPECT_EQ(access.counters().req_remote_access_errors, 1u);
  invalid.Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  invalid.Receive("NAK_INVALID_REQUEST psn=000100 msn=0");
  EXPECT_EQ(invalid.counters().req_remote_invalid_request, 1u);
}

// [3.2.read] It acknowledges SENDs and WRITEs before it. golden/linux-rxe-4-loss, case 15.
TEST(RequesterResponse, AReadResponseAcknowledgesWhatIsBefore) {
  Script s;
  s.Post(Write(64)).Post(Read(64));
  s.Sends({"WRITE_ONLY psn=000100 len=64 ackreq", "READ_REQUEST psn=000101 len=64 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=64 msn=2").Does("place_send slot=1 at=0 len=64");
  s.Completes({"0 WRITE SUCCESS", "1 READ SUCCESS"}).Deadline(kNever);
}

// [3.2.read 2.psn.wrap] Payload goes to (PSN - first) * PMTU.
TEST(RequesterResponse, PlacesReadResponsesInOrder) {
  Script s({.sq_psn = 0xffffff});
  s.Post(Read(2500)).Sends({"READ_REQUEST psn=ffffff len=2500 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=ffffff len=1024 msn=1");
  s.Does("place_send slot=0 at=0 len=1024");
  s.Receive("READ_RESPONSE_MIDDLE psn=000000 len=1024").Does("place_send slot=0 at=1024 len=1024");
  s.Nothing().Receive("READ_RESPONSE_LAST psn=000001 len=452 msn=1");
  s.Does("place_send slot=0 at=2048 len=452").Completes({"0 READ SUCCESS"});
}

// [3.2.read.gap 3.4.read] Drop, ask again for the tail from the first missing PSN (3.4).
TEST(RequesterResponse, AGapInReadResponsesAsksForTheTailOnce) {
  Script s;
  s.Post(Read(5000, 0x8000)).Sends({"READ_REQUEST psn=000100 len=5000 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.Receive("READ_RESPONSE_MIDDLE psn=000102 len=1024").Result(PacketResult::kOutOfSequence);
  s.Does("").SendsNext("READ_REQUEST psn=000101 len=3976 ackreq");
  EXPECT_EQ(s.sent().header.reth.va, 0x8000u + 1024);
  s.Receive("READ_RESPONSE_MIDDLE psn=000103 len=1024").Does("").Quiet();
  s.Receive("READ_RESPONSE_LAST psn=000104 len=904 msn=1").Does("").Quiet();
  s.Receive("READ_RESPONSE_FIRST psn=000101 len=1024 msn=1");
  s.Does("place_send slot=0 at=1024 len=1024");
}

// [3.2.implied] A later READ's response shows that the earlier one's was lost.
TEST(RequesterResponse, AResponseOfALaterReadIsAnImpliedNak) {
  Script s;
  s.Post(Read(8)).Post(Read(8));
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "READ_REQUEST psn=000101 len=8 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=8 msn=2").Does("").Nothing();
  s.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "READ_REQUEST psn=000101 len=8 ackreq"});
}

// [3.2.past] A duplicate response changes nothing.
TEST(RequesterResponse, IgnoresAReadResponseSeenBefore) {
  Script s;
  s.Post(Read(2000)).Sends({"READ_REQUEST psn=000100 len=2000 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1").Result(PacketResult::kGhost).Does("");
}

// [3.2.bad-response 3.2.read.layout 6.bad-response] LOC_LEN_ERR for the length, else BAD_RESP_ERR.
TEST(RequesterResponse, AReadResponseThatDoesNotFitFailsTheWork) {
  const std::pair<const char*, const char*> kCases[] = {
      {"READ_RESPONSE_ONLY psn=000100 len=1024 msn=1", "BAD_RESP_ERR"},  // More is missing.
      {"READ_RESPONSE_LAST psn=000100 len=976 msn=1", "BAD_RESP_ERR"},
      {"READ_RESPONSE_FIRST psn=000100 len=1000 msn=1", "LOC_LEN_ERR"},
      {"READ_RESPONSE_MIDDLE psn=000100 len=1025", "LOC_LEN_ERR"},
      {"READ_RESPONSE_FIRST psn=000100 len=1024 syndrome=60", "BAD_RESP_ERR"},
      {"ATOMIC_ACK psn=000100 msn=1 original=0", "BAD_RESP_ERR"}};
  for (const auto& [response, status] : kCases) {
    Script s;
    s.Post(Read(2000)).Sends({"READ_REQUEST psn=000100 len=2000 ackreq"});
    s.Receive(response).Does("").State(QpState::kErr);
    s.Completes({std::string("0 READ ") + status}).Quiet();
  }
}

// [3.2.bad-response 3.2.read.layout]
TEST(RequesterResponse, AShortOrLongLastReadResponseFailsTheWork) {
  const std::pair<const char*, const char*> kCases[] = {
      {"READ_RESPONSE_LAST psn=000101 len=975 msn=1", "LOC_LEN_ERR"},
      {"READ_RESPONSE_LAST psn=000101 len=977 msn=1", "LOC_LEN_ERR"},
      {"READ_RESPONSE_MIDDLE psn=000101 len=1024", "BAD_RESP_ERR"}};
  for (const auto& [response, status] : kCases) {
    Script s;
    s.Post(Read(2000)).Sends({"READ_REQUEST psn=000100 len=2000 ackreq"});
    s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1").Receive(response).Does("");
    s.Completes({std::string("0 READ ") + status}).State(QpState::kErr);
  }
}

// [3.2.bad-response] Data for a work that asked for none.
TEST(RequesterResponse, AReadResponseToASendFailsTheWork) {
  Script s;
  s.Post(Send(8)).Sends({"SEND_ONLY psn=000100 len=8 ackreq"});
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1").Does("");
  s.Completes({"0 SEND BAD_RESP_ERR"});
}

// [3.2.atomic] Stores the eight bytes in host order, completes.
TEST(RequesterResponse, AnAtomicAckPlacesTheOriginal) {
  Script s;
  s.Post(Send(8)).Post(FetchAdd(1));
  s.Sends({"SEND_ONLY psn=000100 len=8 ackreq", "FETCH_ADD psn=000101 add=1 ackreq"});
  s.Receive("ATOMIC_ACK psn=000101 msn=2 original=1122334455667788");
  s.Does("place_original slot=1 at=0 len=8 value=1122334455667788");
  s.Completes({"0 SEND SUCCESS", "1 FETCH_ADD SUCCESS"});
}

// [3.2.bad-response]
TEST(RequesterResponse, ANonAckSyndromeInAnAtomicAckFailsTheWork) {
  Script s;
  s.Post(CompareSwap(1, 2)).Sends({"COMPARE_SWAP psn=000100 compare=1 swap=2 ackreq"});
  s.Receive("ATOMIC_ACK psn=000100 syndrome=61 original=0").Does("");
  s.Completes({"0 COMPARE_SWAP BAD_RESP_ERR"});
}

// [3.2.scatter 6.scatter] LOC_PROT_ERR, nothing is sent to the peer.
TEST(RequesterResponse, AScatterErrorFailsTheWorkAndSendsNothing) {
  Script s;
  s.Post(Read(2000)).Post(Send(8));
  s.Sends({"READ_REQUEST psn=000100 len=2000 ackreq", "SEND_ONLY psn=000102 len=8 ackreq"});
  s.NextOutcome(EffectOutcome::kLocalProtection);
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1").State(QpState::kErr).Quiet();
  s.Completes({"0 READ LOC_PROT_ERR", "1 SEND WR_FLUSH_ERR"});
  Script atomic;
  atomic.Post(FetchAdd(1)).Sends({"FETCH_ADD psn=000100 add=1 ackreq"});
  atomic.NextOutcome(EffectOutcome::kLocalProtection);
  atomic.Receive("ATOMIC_ACK psn=000100 msn=1 original=0");
  atomic.Completes({"0 FETCH_ADD LOC_PROT_ERR"}).Quiet();
}

// [3.2.nak.in-read] A fatal NAK may come in place of a missing MIDDLE or LAST.
TEST(RequesterResponse, ANakInTheMiddleOfAReadFailsIt) {
  Script s;
  s.Post(Read(3000)).Sends({"READ_REQUEST psn=000100 len=3000 ackreq"});
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.Receive("NAK_REMOTE_ACCESS psn=000101 msn=1");
  s.Completes({"0 READ REM_ACCESS_ERR"}).State(QpState::kErr);
}

}  // namespace
}  // namespace uroce::transport
