// SPDX-License-Identifier: Apache-2.0
// Late packets and those that were sent again, where no identification tells them apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/analyze/story_script.h"

namespace uroce::tools::analyze {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using wire::Opcode;

constexpr uint8_t kRnrOf160Micros = 0x28;

/// Findings that tell of a loss, of lateness or of a copy.
std::vector<std::string> Faults(const Analysis& analysis) {
  std::vector<std::string> lines = Brief(analysis);
  std::erase_if(lines, [](const std::string& line) {
    return !line.starts_with("loss") && !line.starts_with("reordering") &&
           !line.starts_with("duplicate");
  });
  return lines;
}

/// Of requests: no identifications, a round trip of 20 us.
class Quiet : public StoryScript {
 public:
  explicit Quiet(uint32_t messages = 4) : StoryScript(messages, false) {}
  /// Four repairs, each 10 us behind its NAK: so long the requester takes. They use PSNs 5 to 12.
  Quiet& WithReactions() {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t psn = 5 + 2 * i;
      At(200 + i * 100).Unseen().Send(psn).Send(psn + 1).At(220 + i * 100).Nak(psn);
      At(230 + i * 100).Send(psn).Send(psn + 1).At(251 + i * 100).Ack(psn + 1);
    }
    return *this;
  }
};

TEST(LatenessTest, WaitOfAnRnrNakEndsAlsoForAPacketBeforeIt) {
  Quiet script;
  script.At(200).Send(5).Send(6).At(220).Nak(6, kRnrOf160Micros);
  script.At(385).Send(5).Send(6).At(410).Ack(6);  // The requester begins at 5.
  EXPECT_THAT(Faults(script.Finish()), IsEmpty());
}

TEST(LatenessTest, NakOfARoundThatIsAnsweredAsAWholeTellsOfNoLatePacketInIt) {
  Quiet script;
  script.At(200).Send(5).Send(6).Send(7).At(222).Nak(5);
  // The 7 of before is late: the responder has it behind this 5.
  script.At(223).Send(5).Send(6).Send(7).At(243).Ack(5).Nak(6);
  script.Send(6).Send(7).At(248).Ack(7).At(265).Ack(7);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss request psn=5 frame=9 side=responder"));
}

TEST(LatenessTest, ConnectionsBetweenTwoEndsShareTheirRoundTrip) {
  Quiet script;  // Connection 1 has shown none when its answer comes.
  script.OnConnection(1).At(1'000).Send(5).At(68'100).Send(5).At(68'104).Ack(5);
  const Analysis& analysis = script.Finish();
  EXPECT_THAT(Brief(analysis), ElementsAre("timeout psn=5 frame=10"));
  EXPECT_THAT(FirstOf(analysis, FindingKind::kTimeout).text, HasSubstr("late, not lost"));
}

TEST(LatenessTest, PacketThatComesAloneBehindItsRoundIsTheLateFirstOne) {
  Quiet script;
  script.At(200).Unseen().Send(5).Unseen().Send(6).Send(7).At(222).Nak(5);
  script.At(240).Send(5).Send(6).Send(7).At(246).Send(6).At(270).Ack(7);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("loss request psn=5 frame=11 side=requester",
                          "reordering request psn=6 frame=14 side=requester"));
}

/// The responder misses 14 although it was repeated, and 14 comes once more 2 us behind the NAK.
void RefuseTwice(Quiet& script) {
  script.At(1'000).Send(13).Send(14).Send(15).At(1'020).Nak(13);
  script.At(1'030).Send(13).Send(14).Send(15).At(1'051).Ack(13).Nak(14);
  script.At(1'054).Send(14).At(1'062).Send(14).Send(15).At(1'083).Ack(15);
}

TEST(LatenessTest, PacketThatComesSoonerBehindANakThanItsRequesterReactsIsLate) {
  Quiet script;
  RefuseTwice(script.WithReactions());
  EXPECT_THAT(Faults(script.Finish()), Contains(HasSubstr("reordering request psn=14")));
}

TEST(LatenessTest, ConnectionsBetweenTwoEndsShareTheReactionOfTheRequester) {
  Quiet script;
  script.WithReactions().OnConnection(1);  // Connection 1 has shown one.
  RefuseTwice(script);
  EXPECT_THAT(Faults(script.Finish()), Contains(HasSubstr("reordering request psn=14")));
}

TEST(LatenessTest, RoundOfAnOlderNakBeginsBehindWhatWasAcknowledgedSince) {
  Quiet script;
  script.WithReactions();
  script.At(1'000).Unseen().Send(13).Send(14).Send(15).At(1'020).Nak(13);
  script.At(1'022).Send(13).At(1'023).Ack(13).Nak(14);   // 13 is late; 14 was dropped before it.
  script.At(1'030).Send(14).Send(15).At(1'052).Ack(15);  // 10 us behind the first NAK.
  EXPECT_THAT(Faults(script.Finish()), Not(Contains(HasSubstr("reordering request psn=14"))));
}

TEST(LatenessTest, PacketThatComesAgainBeforeTheWaitOfItsRnrNakWasLateTheFirstTime) {
  Quiet script;  // It answers the NAK.
  script.At(200).Unseen().Send(5).Send(6).At(220).Nak(5);
  script.At(228).Send(5).Nak(5, kRnrOf160Micros);
  script.At(235).Send(5).Send(6).Nak(5, kRnrOf160Micros);
  script.At(400).Send(5).Send(6).At(422).Ack(6);
  EXPECT_THAT(Brief(script.Finish()),
              AllOf(Contains("reordering request psn=5 frame=11 side=requester"),
                    Not(Contains(HasSubstr("loss"))), Not(Contains(HasSubstr("violation")))));
}

TEST(LatenessTest, AnswerThatALateOneOfBeforeOvertookIsNotLate) {
  Quiet script;
  script.At(200).Read(5, 3).Read(8, 1).At(220).Response(Opcode::kReadResponseFirst, 5, 1024);
  script.Response(Opcode::kReadResponseOnly, 8, 1024);  // 6 is lost, 7 is late.
  script.At(225).Read(6, 2).At(246).Response(Opcode::kReadResponseLast, 7, 1024);
  script.At(247).Response(Opcode::kReadResponseFirst, 6, 1024);
  script.Response(Opcode::kReadResponseLast, 7, 1024);
  EXPECT_THAT(Faults(script.Finish()), Not(Contains(HasSubstr("reordering response psn=6"))));
}

// ---- Answers to READs and atomics that are asked for again ----

/// READs and their answers.
class Reads : public Quiet {
 public:
  Reads() { Ask(150, 5, 1).Then(170).Only(5); }  // The path MTU is known.
  Reads& First(uint32_t psn) { return Answer(Opcode::kReadResponseFirst, psn); }
  Reads& Middle(uint32_t psn) { return Answer(Opcode::kReadResponseMiddle, psn); }
  Reads& Last(uint32_t psn) { return Answer(Opcode::kReadResponseLast, psn); }
  Reads& Only(uint32_t psn) { return Answer(Opcode::kReadResponseOnly, psn); }
  Reads& Lost() {
    Unseen();
    return *this;
  }
  Reads& Ask(int64_t micros, uint32_t psn, uint32_t packets) {
    At(micros).Read(psn, packets);
    return *this;
  }
  Reads& Then(int64_t micros) {
    At(micros);
    return *this;
  }

 private:
  Reads& Answer(Opcode opcode, uint32_t psn) {
    Response(opcode, psn, kMtu);
    return *this;
  }
};

TEST(LatenessTest, AnswersOfTheTimeBeforeShowWhatElseItLost) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Lost().Middle(7).Middle(8);
  script.Ask(225, 7, 4).Then(227).Last(10);  // It is of the time before, which lost 9 too.
  script.Then(246).First(7).Middle(8).Middle(9).Last(10);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=14 side=responder",
                                                   "loss response psn=9 frame=14 side=responder"));
}

TEST(LatenessTest, AnswersBehindAPieceThatIsAskedForAgainAreOfTheTimeBefore) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Lost().Middle(7).Middle(8);
  script.Ask(225, 7, 1).Then(245).Middle(9).Last(10).Only(7);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=14 side=responder"));
}

TEST(LatenessTest, AnswerThatComesSoonBehindASecondRequestForItWasLate) {
  Reads script;
  script.Ask(200, 6, 3).Then(220).First(6).Lost().Middle(7).Last(8);
  script.Ask(225, 7, 2).Then(227).Middle(7).Then(246).First(7).Last(8);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("reordering response psn=7 frame=15 side=responder"));
}

TEST(LatenessTest, LateAnswerOfAnAtomicIsNoLoss) {
  Reads script;
  script.At(200).Request(Opcode::kFetchAdd, 6, 0).Request(Opcode::kFetchAdd, 7, 0);
  script.At(221).Response(Opcode::kAtomicAcknowledge, 7, 0);
  script.At(225).Request(Opcode::kFetchAdd, 6, 0).Request(Opcode::kFetchAdd, 7, 0);
  script.At(228).Response(Opcode::kAtomicAcknowledge, 6, 0);
  script.At(246).Response(Opcode::kAtomicAcknowledge, 6, 0);
  script.Response(Opcode::kAtomicAcknowledge, 7, 0);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("reordering response psn=6 frame=16 side=responder"));
}

TEST(LatenessTest, LateAnswerOfAnAtomicThatWasAskedForThreeTimesIsNoLoss) {
  Reads script;
  script.At(200).Request(Opcode::kFetchAdd, 6, 0).Request(Opcode::kFetchAdd, 7, 0);
  script.Request(Opcode::kFetchAdd, 8, 0);
  script.At(221).Response(Opcode::kAtomicAcknowledge, 7, 0);
  script.At(223).Request(Opcode::kFetchAdd, 6, 0).Request(Opcode::kFetchAdd, 7, 0);
  script.At(226).Response(Opcode::kAtomicAcknowledge, 8, 0);
  script.At(227).Request(Opcode::kFetchAdd, 6, 0).Request(Opcode::kFetchAdd, 7, 0);
  script.At(230).Response(Opcode::kAtomicAcknowledge, 6, 0);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("reordering response psn=6 frame=20 side=responder"));
}

TEST(LatenessTest, AnswerThatTheNextReadsOvertookIsLate) {
  Reads script;
  script.At(200).Read(6, 1).Read(7, 1).At(221).Response(Opcode::kReadResponseOnly, 7, 1024);
  script.Response(Opcode::kReadResponseOnly, 6, 1024);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("reordering response psn=6 frame=14 side=responder"));
}

TEST(LatenessTest, RepeatedAnswersOfReadsWithoutIdentificationsAreNoCopies) {
  Reads script;
  script.Ask(200, 6, 2).Then(220).First(6).Last(7).Ask(1'500, 6, 2).Then(1'520).First(6).Last(7);
  script.Then(1'530).Last(7);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=6 frame=12 side=requester",
                                                   "duplicate response psn=7 frame=16"));
}

TEST(LatenessTest, AnswerThatCrossesTheRepeatedReadWasNotLost) {
  Reads script;  // The requester cannot ask again so soon behind the answer because of it.
  script.Ask(200, 6, 1).Then(68'199).Only(6).Ask(68'200, 6, 1).Then(68'220).Only(6);
  EXPECT_THAT(Faults(script.Finish()), IsEmpty());
}

TEST(LatenessTest, ReadThatIsAskedForTwiceWithinARoundTripLosesNothingTwice) {
  Reads script;
  script.Ask(200, 6, 3).Then(220).First(6).Lost().Middle(7).Last(8);
  script.Ask(225, 7, 2).Ask(230, 7, 2);
  script.Then(246).First(7).Last(8).First(7).Last(8);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=14 side=responder"));
}

TEST(LatenessTest, PacketsThatWereAcknowledgedAreNotSentAgainBehindARepeatedRead) {
  Reads script;
  script.Ask(200, 6, 1).Send(7).Send(8).Send(9).At(224).Ack(8);
  script.Ask(226, 6, 1).Send(9);
  script.Then(247).Only(6).Ack(9);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=6 frame=16 side=responder"));
}

TEST(LatenessTest, AnswersOfTheFirstTimeGoOnBehindTwoMoreRequests) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Lost().Middle(7).Middle(8);
  script.Ask(225, 7, 4).Ask(228, 7, 4).Then(230).Middle(9).Last(10);
  script.Then(246).First(7).Middle(8).Middle(9).Last(10);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=14 side=responder"));
}

TEST(LatenessTest, PieceThatAResponderDoesNotAnswerIsNoLoss) {
  Reads script;
  script.Ask(200, 6, 4).Then(220).First(6).Lost().Middle(7).Middle(8).Last(9);
  script.Ask(230, 7, 1).Ask(68'300, 7, 3).Then(68'320).First(7).Middle(8).Last(9);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=15 side=responder"));
}

TEST(LatenessTest, AnswerThatIsPassedOverTwiceWasLostTwice) {
  Reads script;
  script.Ask(200, 6, 4).Then(220).First(6).Lost().Middle(7).Middle(8).Last(9);
  script.Ask(230, 7, 3).Then(250).Lost().First(7).Middle(8).Last(9);
  script.Ask(260, 7, 3).Then(280).First(7).Middle(8).Last(9);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=15 side=responder",
                                                   "loss response psn=7 frame=18 side=responder"));
}

TEST(LatenessTest, AnswersThatAreMissingBehindTheOneThatIsAskedForWereLostToo) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Middle(7).Middle(8).Lost().Middle(9).Last(10);
  script.Ask(230, 7, 4).Then(250).First(7).Middle(8).Middle(9).Last(10);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=13 side=requester",
                                                   "loss response psn=9 frame=16 side=responder"));
}

TEST(LatenessTest, LateAnswerWithinTheRoundOfARepeatedReadIsFound) {
  Reads script;
  script.Ask(200, 6, 4).Ask(68'200, 6, 4);
  script.Then(68'220).First(6).Middle(8).Last(9).Middle(7);
  EXPECT_THAT(Faults(script.Finish()), Contains(HasSubstr("reordering response psn=7 frame=16")));
}

TEST(LatenessTest, EachReadThatALaterAnswerPassesOverLostItsAnswer) {
  Reads script;
  script.Ask(200, 6, 1).Ask(201, 7, 1).Ask(202, 8, 1).Then(222).Only(8);
  script.Ask(230, 6, 1).Ask(231, 7, 1).Ask(232, 8, 1).Then(250).Only(6).Only(7).Only(8);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("loss response psn=6 frame=15 side=responder count=2"));
}

TEST(LatenessTest, FirstOfTheRestIsNoLateAnswerHoweverSoonItComes) {
  Reads script;  // The answer to the whole READ has a MIDDLE there.
  script.Ask(200, 6, 3).Then(220).First(6).Lost().Middle(7).Last(8);
  script.Ask(225, 7, 2).Then(227).First(7).Last(8);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=14 side=responder"));
}

TEST(LatenessTest, AnswerThatTheNextReadsOvertookIsLateAlsoBehindATimeout) {
  Reads script;
  script.Ask(200, 6, 3).Ask(201, 9, 1).Then(221).First(6).Ask(68'200, 7, 2);
  script.Then(68'202).Only(9).Then(68'204).Middle(7);
  EXPECT_THAT(Faults(script.Finish()), Contains(HasSubstr("reordering response psn=7")));
}

TEST(LatenessTest, RunOfLateAnswersIsOneToAReadThatWasSentAgainBetween) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Lost().Middle(7).Middle(9).Last(10);
  script.Ask(225, 7, 4).Ask(228, 7, 4).Then(230).Middle(7).Middle(8);
  EXPECT_THAT(Faults(script.Finish()), Not(Contains(HasSubstr("reordering response psn=8"))));
}

TEST(LatenessTest, ReadThatComesSoonerBehindAnAnswerThanItsRequesterReactsCrossedIt) {
  Quiet script(0);  // At the responder: it answers within 1 us, and the requester reacts in 20 us.
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t psn = 1 + 2 * i;
    script.At(100 + i * 100).Unseen().Send(psn).Send(psn + 1).Nak(psn);
    script.At(122 + i * 100).Send(psn).Send(psn + 1).Ack(psn + 1);
  }
  script.At(1'000).Read(9, 1).Response(Opcode::kReadResponseOnly, 9, 1024);
  const auto answer_rest = [&] {
    script.Response(Opcode::kReadResponseMiddle, 11, 1024);
    script.Response(Opcode::kReadResponseLast, 12, 1024);
  };
  script.At(2'000).Read(10, 3).Response(Opcode::kReadResponseFirst, 10, 1024);
  answer_rest();  // The responder's 11 is lost behind the point, and its second 11 is not.
  script.At(2'023).Read(11, 2);
  answer_rest();
  script.At(2'028).Read(11, 2);
  answer_rest();
  EXPECT_THAT(Faults(script.Finish()), Contains(HasSubstr("loss response")).Times(1));
}

TEST(LatenessTest, PieceThatIsAskedForAgainWithinARoundTripWasLostOnce) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Lost().Middle(7).Middle(8).Lost().Middle(9).Last(10);
  script.Ask(225, 7, 1).Ask(226, 9, 1).Ask(230, 7, 1).Then(246).Only(7).Only(9).Only(7);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=15 side=responder",
                                                   "loss response psn=9 frame=16 side=responder"));
}

TEST(LatenessTest, PieceOfARestThatWasAskedForWasLostToo) {
  Reads script;
  script.Ask(200, 6, 5).Then(220).First(6).Lost().Middle(7).Middle(8).Middle(9).Last(10);
  script.Ask(230, 7, 4).Then(250).First(7).Lost().Middle(8).Middle(9).Last(10);
  script.Ask(260, 8, 1).Then(280).Only(8);
  EXPECT_THAT(Faults(script.Finish()), ElementsAre("loss response psn=7 frame=16 side=responder",
                                                   "loss response psn=8 frame=20 side=responder"));
}

TEST(LatenessTest, IdentificationTellsALateAnswerAlsoALongTimeBehindTheRepeatedRead) {
  StoryScript script(4);
  script.At(200).Read(5, 3).At(220).WithIdentification(5005);
  script.Response(Opcode::kReadResponseFirst, 5, 1024).WithIdentification(5007);
  script.Response(Opcode::kReadResponseLast, 7, 1024).At(225).Read(6, 2).At(250);
  script.WithIdentification(5006).Response(Opcode::kReadResponseMiddle, 6, 1024);
  script.WithIdentification(5008).Response(Opcode::kReadResponseFirst, 6, 1024);
  script.WithIdentification(5009).Response(Opcode::kReadResponseLast, 7, 1024);
  EXPECT_THAT(Faults(script.Finish()),
              ElementsAre("reordering response psn=6 frame=13 side=responder"));
}

}  // namespace
}  // namespace uroce::tools::analyze
