// SPDX-License-Identifier: Apache-2.0
// Losses, their causes and what follows from them, as one capture point shows them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/analyze/story_script.h"

namespace uroce::tools::analyze {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::Opcode;

TEST(LossesTest, HealthyTrafficHasNoFinding) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 3).WriteMiddle(6).WriteLast(7).At(230).Ack(7);
  script.At(300).Read(8, 3).At(320).Response(Opcode::kReadResponseFirst, 8, 1024);
  script.Response(Opcode::kReadResponseMiddle, 9, 1024);
  script.Response(Opcode::kReadResponseLast, 10, 1024);
  script.At(400).Request(Opcode::kFetchAdd, 11, 0);
  script.At(420).Response(Opcode::kAtomicAcknowledge, 11, 0);
  EXPECT_THAT(Brief(script.Finish()), IsEmpty());
}

TEST(LossesTest, OneDirectionAloneIsNoTrouble) {
  StoryScript requests;
  requests.WriteFirst(5, 3).WriteMiddle(6).WriteLast(7).At(50).Read(8, 2).At(90).Send(10);
  EXPECT_THAT(Brief(requests.Finish()), IsEmpty());
  StoryScript answers;
  answers.Ack(5).Ack(7).Response(Opcode::kReadResponseFirst, 8, 1024);
  answers.Response(Opcode::kReadResponseLast, 9, 1024).Nak(12).Ack(15);
  EXPECT_THAT(Brief(answers.Finish()), IsEmpty());
}

TEST(LossesTest, RepairOfOneDirectionAloneHasNoCauseThatIsMadeUp) {
  StoryScript script;
  script.WriteFirst(5, 3).WriteMiddle(6).WriteLast(7).At(40).WriteMiddle(6).WriteLast(7);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("go-back-n psn=6 frame=4 count=2"));
}

TEST(LossesTest, NakOfAPacketThatWasSeenIsALossBehindThePoint) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).WriteMiddle(6).WriteMiddle(7).WriteLast(8);  // 9 to 12
  script.At(220).Nak(6).At(240).WriteMiddle(6).WriteMiddle(7).WriteLast(8).At(270).Ack(8);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis),
              ElementsAre("loss request psn=6 frame=10 side=responder",
                          "sequence-nak psn=6 frame=13", "go-back-n psn=6 frame=14 count=3"));
  const Finding loss = FirstOf(analysis, FindingKind::kLoss);
  const Finding nak = FirstOf(analysis, FindingKind::kSequenceNak);
  EXPECT_EQ(nak.cause, loss.id);
  EXPECT_EQ(FirstOf(analysis, FindingKind::kGoBackN).cause, nak.id);
}

TEST(LossesTest, GapThatIsFilledByRepairIsALossBeforeThePoint) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).Unseen().WriteMiddle(6).WriteMiddle(7).WriteLast(8);
  script.At(220).Nak(6).At(240).WriteMiddle(6).WriteMiddle(7).WriteLast(8).At(270).Ack(8);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("sequence-nak psn=6 frame=12",
                                                  "loss request psn=6 frame=13 side=requester",
                                                  "go-back-n psn=6 frame=13 count=3"));
}

TEST(LossesTest, GapThatTheResponderAcknowledgesIsMissingInTheCaptureOnly) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).Unseen().WriteMiddle(6).WriteMiddle(7).WriteLast(8);
  script.At(220).Ack(8);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("not-captured psn=6 frame=10"));
}

TEST(LossesTest, LatePacketWithAnOlderIdentificationIsReordering) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4);
  script.WithIdentification(107).WriteMiddle(7).WithIdentification(106).WriteMiddle(6);
  script.WithIdentification(108).WriteLast(8).At(240).Ack(8);
  EXPECT_THAT(Brief(script.Finish()),
              ElementsAre("reordering request psn=6 frame=11 side=requester"));
}

TEST(LossesTest, PacketsBehindOneEarlyPacketAreOneFinding) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).WithIdentification(108).WriteLast(8);
  script.WithIdentification(106).WriteMiddle(6).WithIdentification(107).WriteMiddle(7);
  script.At(240).Ack(8);
  EXPECT_THAT(Brief(script.Finish()),
              ElementsAre("reordering request psn=6 frame=11 side=requester count=2"));
}

TEST(LossesTest, LostReadRequestIsOnePacketAndItsAnswersAreExpected) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 2).WriteLast(6).At(230).Ack(6);  // The path MTU is known.
  script.At(300).Unseen().Read(7, 3).Read(10, 1).At(320).Nak(7).At(340).Read(7, 3).Read(10, 1);
  script.At(360).Response(Opcode::kReadResponseFirst, 7, 1024);
  script.Response(Opcode::kReadResponseMiddle, 8, 1024);
  script.Response(Opcode::kReadResponseLast, 9, 1024);
  script.Response(Opcode::kReadResponseOnly, 10, 1024);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("sequence-nak psn=7 frame=13",
                                                  "loss request psn=7 frame=14 side=requester",
                                                  "go-back-n psn=7 frame=14 count=2"));
}

TEST(LossesTest, NakBehindReorderingNamesTheReordering) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4);
  script.WithIdentification(107).WriteMiddle(7).WithIdentification(106).WriteMiddle(6);
  script.WithIdentification(108).WriteLast(8);
  script.At(220).Nak(6).At(240).WithIdentification(109).WriteMiddle(6).WithIdentification(110);
  script.WriteMiddle(7).WithIdentification(111).WriteLast(8).At(270).Ack(8);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis),
              ElementsAre("reordering request psn=6 frame=11 side=requester",
                          "sequence-nak psn=6 frame=13", "go-back-n psn=6 frame=14 count=3"));
  EXPECT_EQ(FirstOf(analysis, FindingKind::kSequenceNak).cause,
            FirstOf(analysis, FindingKind::kReordering).id);
}

TEST(LossesTest, CopyOfTheNetworkIsNoResend) {
  StoryScript script(4);
  script.At(200).Send(5).At(250).Again().At(260).Ack(5).At(280).Ack(5);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("duplicate request psn=5 frame=9"));
}

TEST(LossesTest, TimeoutOfTheOnlyPacketDoesNotTellWhichOfTwoWasLost) {
  StoryScript script(4);
  script.At(1'000).Send(5).At(68'100).Send(5).At(68'120).Ack(5);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis),
              ElementsAre("loss psn=5 frame=9 side=responder", "timeout psn=5 frame=10"));
  EXPECT_THAT(FirstOf(analysis, FindingKind::kTimeout).text, HasSubstr("codes 12 to 14"));
}

TEST(LossesTest, AckThatWasSeenAndDidNotArriveWasLostOnTheRequestersSide) {
  StoryScript script(4);
  script.At(1'000).Send(5).At(1'020).Ack(5).At(68'100).Send(5).At(68'120).Ack(5);
  EXPECT_THAT(Brief(script.Finish()),
              ElementsAre("loss response psn=5 frame=10 side=requester", "timeout psn=5 frame=11"));
}

TEST(LossesTest, RepeatedAcksBehindATimeoutTellWhatWasMissed) {
  StoryScript script(4);
  script.At(1'000).WriteFirst(5, 3).WriteMiddle(6).WriteLast(7);  // 9 to 11; the last is lost.
  script.At(68'100).WriteFirst(5, 3).WriteMiddle(6).WriteLast(7);
  script.At(68'120).Ack(6).Ack(6).Ack(7);
  EXPECT_THAT(Brief(script.Finish()),
              ElementsAre("loss request psn=7 frame=11 side=responder", "timeout psn=5 frame=12",
                          "go-back-n psn=5 frame=12 count=3"));
}

TEST(LossesTest, AnswerThatComesTooSoonWasLate) {
  StoryScript script(4);  // Round trips take 20 us.
  script.At(1'000).Send(5).At(68'100).Send(5).At(68'104).Ack(5).At(68'120).Ack(5);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis), ElementsAre("timeout psn=5 frame=10"));
  EXPECT_THAT(FirstOf(analysis, FindingKind::kTimeout).text, HasSubstr("late, not lost"));
}

TEST(LossesTest, LostReadResponseIsNamed) {
  StoryScript script(4);
  script.At(200).Read(5, 3).At(220).Response(Opcode::kReadResponseFirst, 5, 1024);
  script.Response(Opcode::kReadResponseMiddle, 6, 1024);  // 11: lost behind the point.
  script.Response(Opcode::kReadResponseLast, 7, 1024);
  script.At(300).Read(6, 2).At(320).Response(Opcode::kReadResponseFirst, 6, 1024);
  script.Response(Opcode::kReadResponseLast, 7, 1024);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("loss response psn=6 frame=11 side=requester",
                                                  "go-back-n psn=6 frame=13"));
}

TEST(LossesTest, ReadResponseThatDidNotReachThePointWasLostOnTheRespondersSide) {
  StoryScript script(4);
  script.At(200).Read(5, 3).At(220).Response(Opcode::kReadResponseFirst, 5, 1024);
  script.Unseen().Response(Opcode::kReadResponseMiddle, 6, 1024);
  script.Response(Opcode::kReadResponseLast, 7, 1024);
  script.At(300).Read(6, 2).At(320).Response(Opcode::kReadResponseFirst, 6, 1024);
  script.Response(Opcode::kReadResponseLast, 7, 1024);
  EXPECT_THAT(Brief(script.Finish()), ElementsAre("loss response psn=6 frame=12 side=responder",
                                                  "go-back-n psn=6 frame=12"));
}

TEST(LossesTest, RequesterThatGivesUpIsAnError) {
  StoryScript script(4);
  script.At(1'000).Send(5).At(68'000).Send(5).At(136'000).Send(5);
  script.At(900'000).AtPoint(0).Cnp();  // The capture goes on.
  const Analysis& analysis = script.Finish();
  const Finding end = FirstOf(analysis, FindingKind::kRetriesExhausted);
  EXPECT_EQ(end.severity, Severity::kError);
  EXPECT_EQ(end.count, 2u);
  EXPECT_EQ(end.frames[0], 11u);
}

TEST(LossesTest, PacketThatWasSentAgainAndSkippedWasLostTwice) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).Unseen().WriteMiddle(6).WriteMiddle(7).WriteLast(8);
  script.At(220).Nak(6).At(240).WriteMiddle(7).WriteLast(8);  // 6 is lost again.
  script.At(68'000).WriteMiddle(6).WriteMiddle(7).WriteLast(8).At(68'020).Ack(8);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.log().count(FindingKind::kLoss), 2u);
}

TEST(LossesTest, SkippedPacketThatIsRepairedAtOnceWasNotLate) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).WriteMiddle(6).WriteMiddle(7).WriteLast(8).At(220).Nak(5);
  script.At(240).WriteFirst(5, 4).WriteMiddle(7).WriteLast(8).At(260).Nak(6);  // Lost: 6.
  script.At(280).WriteMiddle(6).WriteMiddle(7).WriteLast(8).Ack(8);
  EXPECT_EQ(script.Finish().log().count(FindingKind::kReordering), 0u);
}

TEST(LossesTest, PacketBeforeTheFirstOneThatWasSeenWasLost) {
  StoryScript script;
  script.WriteMiddle(6).WriteLast(7).At(20).Nak(5).At(40).WriteFirst(5, 3).WriteMiddle(6);
  script.WriteLast(7).At(60).Ack(7);
  EXPECT_THAT(Brief(script.Finish()),
              ElementsAre("sequence-nak psn=5 frame=3", "loss request psn=5 frame=4",
                          "go-back-n psn=5 frame=4 count=3"));
}

TEST(LossesTest, TwoLostAnswersOfOneReadAreFound) {
  StoryScript script(4);
  script.At(200).Read(5, 5).At(220).Response(Opcode::kReadResponseFirst, 5, 1024);
  script.Unseen().Response(Opcode::kReadResponseMiddle, 6, 1024);
  script.Response(Opcode::kReadResponseMiddle, 7, 1024);
  script.Unseen().Response(Opcode::kReadResponseMiddle, 8, 1024);
  script.Response(Opcode::kReadResponseLast, 9, 1024);
  script.At(300).Read(6, 4).At(320).Response(Opcode::kReadResponseFirst, 6, 1024);
  script.Response(Opcode::kReadResponseMiddle, 7, 1024);
  script.Response(Opcode::kReadResponseMiddle, 8, 1024);
  script.Response(Opcode::kReadResponseLast, 9, 1024);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(FirstOf(analysis, FindingKind::kLoss).count, 2u);
  EXPECT_EQ(FirstOf(analysis, FindingKind::kLoss).among, 3u);
  EXPECT_EQ(analysis.log().count(FindingKind::kDuplicate), 0u);
}

TEST(LossesTest, PacketDroppedBehindALatePacketIsNoLoss) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).WriteMiddle(6).WriteMiddle(7).WriteLast(8);
  // At the responder 6 is late: it drops 7, takes 6, and misses 7 when 8 comes.
  script.At(220).Nak(6).Ack(6).Nak(7).At(240).WriteMiddle(7).WriteLast(8).At(270).Ack(8);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.log().count(FindingKind::kLoss), 0u);
  EXPECT_EQ(analysis.log().count(FindingKind::kReordering), 1u);
}

TEST(LossesTest, PacketThatCameBeforeALateOneWasDroppedAndIsNoLoss) {
  StoryScript script(4);
  script.At(200).WithIdentification(106).Send(6).WithIdentification(105).Send(5).Nak(5).Ack(5);
  script.At(240).WithIdentification(107).Send(6).At(260).Ack(6);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.log().count(FindingKind::kLoss), 0u);
  EXPECT_EQ(analysis.log().count(FindingKind::kReordering), 1u);
}

TEST(LossesTest, SilenceBehindALatePacketThatAnRnrNakHadRefusedIsNoLoss) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 2).WriteLast(6).At(220).Nak(5, 0x21);
  script.At(240).WithIdentification(108).WriteLast(6).WithIdentification(107).WriteFirst(5, 2);
  script.At(1'400).WithIdentification(109).WriteFirst(5, 2).WithIdentification(110).WriteLast(6);
  script.At(1'420).Ack(6);
  EXPECT_EQ(script.Finish().log().count(FindingKind::kLoss), 0u);
}

TEST(LossesTest, TimeoutBehindAnRnrNakMayBeOfALatePacket) {
  StoryScript script(4);
  script.At(200).Send(5).Send(6).Send(7).At(220).Nak(5, 0x21);
  script.At(240).Send(5).Send(6).Send(7).At(265).Ack(5);  // 5 came behind 6 and 7, or 6 was lost.
  script.At(1'400).Send(6).Send(7).At(1'420).Ack(7);
  const Finding loss = FirstOf(script.Finish(), FindingKind::kLoss);
  EXPECT_TRUE(loss.may_be_late);
  EXPECT_EQ(loss.psn, 5u);
  EXPECT_EQ(loss.among, 3u);
}

TEST(LossesTest, NakThatAnEarlierLatePacketDrewIsNotAboutTheRepeatedOne) {
  StoryScript script(4);
  script.At(200).Send(5).Send(6).Send(7).At(222).Nak(5);
  script.At(223).Send(5).Send(6).Send(7).At(226).Ack(5).At(238).Nak(6);  // A 7 of before was late.
  script.At(239).Send(6).Send(7).At(245).Ack(7).At(262).Ack(7);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.log().count(FindingKind::kLoss), 0u);
  EXPECT_THAT(Brief(analysis),
              testing::Not(testing::Contains(HasSubstr("reordering request psn=6"))));
}

TEST(LossesTest, NewPacketThatRepeatedOnesOvertookIsLate) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).WriteMiddle(6).WriteMiddle(7).At(220).Nak(6);
  script.At(240).WithIdentification(109).WriteMiddle(6).WithIdentification(110).WriteMiddle(7);
  script.WithIdentification(108).WriteLast(8).At(270).Ack(8);
  EXPECT_THAT(Brief(script.Finish()),
              testing::Contains("reordering request psn=8 frame=15 side=requester"));
}

TEST(LossesTest, LatePacketThatHasBeenRepeatedIsNotSentAgain) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 3).Unseen().WriteMiddle(6).WriteLast(7).At(220).Nak(6);
  script.At(240).WithIdentification(108).WriteMiddle(6).WithIdentification(109).WriteLast(7);
  script.WithIdentification(106).WriteMiddle(6).At(270).Ack(7);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.log().count(FindingKind::kLoss), 0u);
  EXPECT_THAT(Brief(analysis),
              testing::Contains("reordering request psn=6 frame=14 side=requester"));
}

TEST(LossesTest, RepeatBehindAnRnrNakIsNoLostAck) {
  StoryScript script(4);
  script.At(200).Send(5).Send(6).At(220).Nak(6, 0x21).At(231).Send(5).Send(6).At(255).Ack(6);
  EXPECT_EQ(script.Finish().log().count(FindingKind::kLoss), 0u);
}

TEST(LossesTest, LongAnswerTellsThePathMtu) {
  StoryScript script(4);
  script.At(200).Request(Opcode::kReadRequest, 5, 0, 4095);
  script.At(220).Response(Opcode::kReadResponseOnly, 5, 4095);
  script.At(240).WithIdentification(107).Send(7).WithIdentification(106).Send(6).At(270).Ack(7);
  EXPECT_THAT(Brief(script.Finish()),
              ElementsAre("reordering request psn=6 frame=12 side=requester"));
}

TEST(LossesTest, MapOfASelectiveAckIsNoDataOfARead) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 2).At(220).Response(Opcode::kSelectiveAcknowledge, 5, 8);
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.connections().front()->views.front().of[0]->amounts().response_bytes, 0u);
}

TEST(LossesTest, SilenceOfACaptureThatLacksPacketsIsNoGivingUp) {
  StoryScript script(4);
  script.At(200).WriteFirst(5, 4).Unseen().WriteMiddle(6).WriteMiddle(7).WriteLast(8).At(220).Ack(
      8);
  script.At(1'000).Send(9).At(68'000).Send(9).At(900'000).AtPoint(0).Cnp();
  EXPECT_EQ(script.Finish().log().count(FindingKind::kRetriesExhausted), 0u);
}

TEST(LossesTest, TwoPointsThatDisagreeOnTheSideHaveTheLossBetweenThem) {
  StoryScript script;
  const auto both = [&](auto&& put) {
    put(script.AtPoint(0));
    put(script.AtPoint(1));
  };
  script.At(0);
  for (uint16_t psn = 1; psn < 5; ++psn) {
    script.AtPoint(0).WithIdentification(psn).Send(psn);
    script.AtPoint(1).WithIdentification(psn).Send(psn);
    both([&](StoryScript& at) { at.WithIdentification(900).Ack(psn); });
  }
  script.AtPoint(0).WithIdentification(5).WriteFirst(5, 3);
  script.AtPoint(1).WithIdentification(5).WriteFirst(5, 3);
  script.AtPoint(0).WithIdentification(6).WriteMiddle(6);  // Seen at the first point only.
  both([&](StoryScript& at) { at.WithIdentification(7).WriteLast(7); });
  both([&](StoryScript& at) { at.WithIdentification(910).Nak(6); });
  both([&](StoryScript& at) { at.WithIdentification(8).WriteMiddle(6); });
  both([&](StoryScript& at) { at.WithIdentification(9).WriteLast(7); });
  both([&](StoryScript& at) { at.WithIdentification(911).Ack(7); });
  const Analysis& analysis = script.Finish();
  EXPECT_EQ(analysis.log().count(FindingKind::kLoss), 1u);
  EXPECT_EQ(FirstOf(analysis, FindingKind::kLoss).side, LostSide::kBetween);
  EXPECT_EQ(analysis.log().count(FindingKind::kSequenceNak), 1u);
}

}  // namespace
}  // namespace uroce::tools::analyze
