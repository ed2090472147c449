// SPDX-License-Identifier: Apache-2.0
// Works that are done on their own side: binding windows, invalidating keys.
// docs/protocol/transport.md, sections 4.4, 6 and 7.
#include <gtest/gtest.h>

#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// [7.bind] It takes no PSN.
TEST(LocalWork, ABindTakesEffectBeforeLaterWorksBegin) {
  Script s;
  s.Post(Write(8)).Post(Bind()).Post(Send(8)).Local("");
  s.Sends({"WRITE_ONLY psn=000100 len=8 ackreq"}).Local("bind 1");
  s.Quiet().Local("").LocalEnds().Sends({"SEND_ONLY psn=000101 len=8 ackreq"});
  s.Nothing().Receive("ACK psn=000100 msn=1");
  s.Completes({"0 WRITE SUCCESS", "1 BIND_WINDOW SUCCESS"});
}

// [7.bind] With nothing before it, it completes at once.
TEST(LocalWork, ABindAloneCompletesByItself) {
  Script s;
  s.Post(Bind()).Local("bind 0").Nothing().LocalEnds().Completes({"0 BIND_WINDOW SUCCESS"});
  s.Deadline(kNever);
}

// [7.bind 3.4.later] Going back over a bind does not bind again.
TEST(LocalWork, AResendPassesOverABind) {
  Script s;
  s.At(0).Post(Write(8)).Post(Bind()).Post(Read(8)).Post(Bind());
  s.Sends({"WRITE_ONLY psn=000100 len=8 ackreq"}).Local("bind 1").LocalEnds();
  s.Sends({"READ_REQUEST psn=000101 len=8 ackreq"}).Local("bind 3").LocalEnds();
  s.At(67'108'864);
  s.Sends({"WRITE_ONLY psn=000100 len=8 ackreq", "READ_REQUEST psn=000101 len=8 ackreq"});
  s.Local("").Receive("READ_RESPONSE_ONLY psn=000101 len=8 msn=2");
  s.Completes(
      {"0 WRITE SUCCESS", "1 BIND_WINDOW SUCCESS", "2 READ SUCCESS", "3 BIND_WINDOW SUCCESS"});
}

// [7.bind 3.1.7] The work whose bytes are missing is the one before the bind.
TEST(LocalWork, AGatherErrorOfAResendFindsItsWorkBehindABind) {
  Script s;
  s.At(0).Post(Write(8)).Post(Bind()).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  s.Local("bind 1").LocalEnds().At(67'108'864);
  s.SendsNext("WRITE_ONLY psn=000100 len=8 ackreq").GatherFails();
  s.Completes({"0 WRITE LOC_PROT_ERR", "1 BIND_WINDOW WR_FLUSH_ERR"});
}

// [4.4.local] What is before it may use the key; what is behind it must not.
TEST(LocalWork, AnInvalidationWaitsForAllBeforeItAndHoldsUpAllBehind) {
  Script s;
  s.Post(Write(8)).Post(Read(8)).Post(LocalInvalidate(0x77)).Post(Send(8));
  s.Sends({"WRITE_ONLY psn=000100 len=8 ackreq", "READ_REQUEST psn=000101 len=8 ackreq"});
  s.Local("").Receive("ACK psn=000100 msn=1").Local("");
  s.Receive("READ_RESPONSE_ONLY psn=000101 len=8 msn=2").Quiet().Local("invalidate 2 77").Quiet();
  s.LocalEnds().Sends({"SEND_ONLY psn=000102 len=8 ackreq"});
  s.Completes({"0 WRITE SUCCESS", "1 READ SUCCESS", "2 LOCAL_INVALIDATE SUCCESS"});
}

// [4.4.local.fails 6.1.flush]
TEST(LocalWork, AnInvalidationOfAWrongKeyFails) {
  Script s;
  s.Post(LocalInvalidate(0x77)).Post(Send(8)).Local("invalidate 0 77");
  s.LocalEnds(EffectOutcome::kInvalidateFailed).State(QpState::kErr).Quiet();
  s.Completes({"0 LOCAL_INVALIDATE LOC_QP_OP_ERR", "1 SEND WR_FLUSH_ERR"});
}

// [6.bind] It fails in its turn: what is before it may still succeed.
TEST(LocalWork, ABindThatFailsIsMwBindErr) {
  Script s;
  s.Post(Write(8)).Post(Bind()).Post(Send(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  s.Local("bind 1").LocalEnds(EffectOutcome::kLocalProtection).Quiet().State(QpState::kRts);
  s.Receive("ACK psn=000100 msn=1").State(QpState::kErr);
  s.Completes({"0 WRITE SUCCESS", "1 BIND_WINDOW MW_BIND_ERR", "2 SEND WR_FLUSH_ERR"});
}

// [3.1.4] A fence holds local works too.
TEST(LocalWork, AFencedBindWaitsForReads) {
  Script s;
  SendWork fenced = Bind();
  fenced.fence = true;
  s.Post(Read(8)).Post(fenced).Sends({"READ_REQUEST psn=000100 len=8 ackreq"}).Local("");
  s.Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1").Local("bind 1");
}

// [1.sqd 1.sqd.drained] A local work under way is begun; one that is not waits for RTS.
TEST(LocalWork, SqdWaitsForTheLocalWorkUnderWayAndBeginsNone) {
  Script s;
  s.Post(Bind()).Post(Bind()).Local("bind 0").Modify(QpState::kSqd).Raises({});
  EXPECT_TRUE(s.qp().draining());
  s.LocalEnds().Raises({QpEvent::kSqDrained}).Local("");
  s.Modify(QpState::kRts).Local("bind 1");
}

// [6.1.flush] The queue pair fails while the shell is at it: the work flushes, its end is no news.
TEST(LocalWork, ALocalWorkUnderWayFlushesInErr) {
  Script s;
  s.Post(Bind()).Local("bind 0").Modify(QpState::kErr);
  s.Completes({"0 BIND_WINDOW WR_FLUSH_ERR"}).LocalEnds().Nothing();
}

}  // namespace
}  // namespace uroce::transport
