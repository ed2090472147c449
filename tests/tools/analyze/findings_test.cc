// SPDX-License-Identifier: Apache-2.0
// Findings other than losses: receivers that are not ready, refusals, violations, damage, marks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/analyze/story_script.h"

namespace uroce::tools::analyze {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::Opcode;

TEST(FindingsTest, RnrNaksOfOnePacketAreOneFinding) {
  StoryScript script(3);
  // Code 14: 1.28 ms.
  script.At(200).Send(4).At(220).Nak(4, 0x2e).At(1'600).Send(4).At(1'620).Nak(4, 0x2e);
  script.At(3'000).Send(4).At(3'020).Ack(4);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis), ElementsAre("rnr psn=4 frame=8 count=2"));
  EXPECT_EQ(FirstOf(analysis, FindingKind::kRnr).duration_ns, 2'780'000);
}

TEST(FindingsTest, ResendBeforeTheRnrTimeIsAViolation) {
  StoryScript script(3);
  script.At(200).Send(4).At(220).Nak(4, 0x2e).At(400).Send(4).At(420).Ack(4);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(FirstOf(analysis, FindingKind::kViolation).text, HasSubstr("before the 1.28 ms"));
}

TEST(FindingsTest, RnrRetriesThatEndAreAnError) {
  StoryScript script(3);
  script.At(200).Send(4).At(220).Nak(4, 0x2e).At(1'600).Send(4).At(1'620).Nak(4, 0x2e);
  script.At(900'000).Cnp();
  EXPECT_EQ(script.Finish().log().count(FindingKind::kRnrExhausted), 1u);
}

TEST(FindingsTest, RefusalsAreExplained) {
  StoryScript script(3);
  script.At(200).Request(Opcode::kWriteOnly, 4, 64, 64).At(220).Nak(4, wire::kNakRemoteAccess);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis), ElementsAre("refused psn=4 frame=8"));
  EXPECT_THAT(FirstOf(analysis, FindingKind::kRefused).text,
              HasSubstr("refused WRITE_ONLY psn 4 (frame 7): remote access error (0x62)"));
}

TEST(FindingsTest, MessagesThatDoNotBeginAreViolations) {
  StoryScript script(3);
  script.At(200).WriteMiddle(4);
  const Finding finding = FirstOf(script.Finish(), FindingKind::kViolation);
  EXPECT_THAT(finding.text, HasSubstr("continues a message that did not begin"));
  EXPECT_EQ(finding.rule, "docs/protocol/transport.md, section 4.1, step 3");
}

TEST(FindingsTest, PacketsThatAreNotTheMtuAreViolations) {
  StoryScript script(3);
  script.At(200).WriteFirst(4, 3).Request(Opcode::kWriteMiddle, 5, 512);
  EXPECT_THAT(FirstOf(script.Finish(), FindingKind::kViolation).text,
              HasSubstr("has 512 bytes of payload, not the path MTU of 1024"));
}

TEST(FindingsTest, WriteOfAnotherLengthThanItsRethIsAViolation) {
  StoryScript script(3);
  script.At(200).WriteFirst(4, 3).WriteLast(5);
  EXPECT_THAT(FirstOf(script.Finish(), FindingKind::kViolation).text,
              HasSubstr("a WRITE of 3072 bytes ends with 2048"));
}

TEST(FindingsTest, AnswerToWhatWasNotSentIsAViolation) {
  StoryScript script(3);
  script.At(200).Send(4).At(220).Ack(9).At(240).Ack(4).At(9'000).Send(5).At(9'020).Ack(5);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("violation psn=9 frame=8"));
}

TEST(FindingsTest, AnswerThatWasCapturedBeforeItsRequestIsNone) {
  StoryScript script(3);
  script.At(200).Ack(4).Send(4).At(9'000).Send(5).At(9'020).Ack(5);
  EXPECT_THAT(Brief(script.Finish()), IsEmpty());
}

TEST(FindingsTest, ChangedBitIsFoundAndThePacketIsNotLostTwice) {
  StoryScript script(3);
  // A packet with PSN 4 that arrives with another PSN in its BTH: byte 53 is the last of the PSN.
  script.At(200).Unseen().Send(4).Damaged(53, 0x10).At(68'000).Send(4).At(68'020).Ack(4);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis), ElementsAre("icrc-error psn=4 frame=7", "timeout psn=4 frame=8"));
  const Finding damage = FirstOf(analysis, FindingKind::kIcrcError);
  EXPECT_THAT(damage.text, HasSubstr("bit 4 of byte 53 of the frame, in the PSN, changed"));
  EXPECT_EQ(FirstOf(analysis, FindingKind::kTimeout).cause, damage.id);
}

TEST(FindingsTest, ChangedFieldIsNamed) {
  StoryScript script(3);
  script.At(200).Send(4);
  script.At(210).Damaged(35, 0x12);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(FirstOf(analysis, FindingKind::kIcrcError).text,
              HasSubstr("2 bits of byte 35 of the frame, in the UDP source port"));
}

TEST(FindingsTest, CaptureWithoutIcrcsHasNoFindings) {
  StoryScript script;
  for (uint32_t psn = 1; psn < 40; ++psn) {
    script.At(psn * 100).Unseen().Send(psn).Damaged(-1, 0xff).At(psn * 100 + 20);
    script.Unseen().Ack(psn).Damaged(-1, 0xff);
  }
  EXPECT_THAT(Brief(script.Finish()), IsEmpty());
}

TEST(FindingsTest, MarksAndCnpsAreOneNote) {
  StoryScript script(3);
  script.Marked(true).At(200).Send(4).Marked(false).At(220).Cnp().Ack(4);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis), ElementsAre("congestion psn=5 frame=7 count=2"));
  EXPECT_THAT(FirstOf(analysis, FindingKind::kCongestion).text,
              HasSubstr("1 of 4 requests and 0 of 4 answers had a mark (CE); 1 CNP"));
}

TEST(FindingsTest, CutFramesAreReadAsFarAsTheyGo) {
  StoryScript script;
  for (uint32_t psn = 1; psn < 5; ++psn) {
    script.At(psn * 100).Cut(74).Send(psn).At(psn * 100 + 20).Ack(psn);
  }
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.totals().cut, 4u);
  EXPECT_THAT(Brief(analysis), IsEmpty());
  EXPECT_EQ(analysis.connections()[0]->MainView()->of[0]->amounts().request_bytes, 256u);
}

TEST(FindingsTest, JoinsBothDirectionsByPsnsAndPort) {
  StoryScript script(3);
  const Analysis& analysis = script.Finish();
  const Connection& connection = *analysis.connections()[0];
  EXPECT_EQ(connection.joined, Joined::kByPsnsAndPort);
  EXPECT_EQ(connection.ends[0].qpn, Qpn(0x11));
  EXPECT_EQ(connection.ends[1].qpn, Qpn(0x22));
  EXPECT_EQ(connection.packets, 6u);
}

}  // namespace
}  // namespace uroce::tools::analyze
