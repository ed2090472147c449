// SPDX-License-Identifier: Apache-2.0
// What a requester knows to be lost (pipeline/transport/selective_repeat.h).
#include "pipeline/transport/selective_repeat.h"

#include <gtest/gtest.h>

#include "tests/transport/script/works_in_flight.h"

namespace uroce::transport {
namespace {

using wire::Psn;

struct SelectiveRepeatTest : testing::Test {
  SelectiveRepeatTest() {
    works.SetMtu(PathMtu(kSmallMtu));
    works.Start(Psn(100));
    EXPECT_TRUE(part.SetActive(true));
    part.Start(works.una());
  }
  SendWorks works{16};
  SelectiveRepeat part{true};
  RoundTrip round;
};

// [sr.standard]
TEST_F(SelectiveRepeatTest, WithoutAnOfferThereIsNoAgreement) {
  SelectiveRepeat none(false);
  EXPECT_FALSE(none.SetActive(true));
  none.Start(Psn(5));
  EXPECT_FALSE(none.active());
  EXPECT_FALSE(none.has_lost());
  EXPECT_FALSE(part.SetActive(true)) << "nothing changes";
}

// [sr.alone]
TEST_F(SelectiveRepeatTest, AMapNamesWhatIsMissingOnce) {
  SendWhole(works, Write(8 * kSmallMtu));
  const MapOf map(6, 0b101000);
  EXPECT_EQ(part.AddMissing(works, Psn(100), map.map()), 4u);
  EXPECT_EQ(part.resend().cause, ResendCause::kSelectiveAck);
  EXPECT_EQ(part.resend().number, 0) << "it costs no retry";
  EXPECT_EQ(part.NextLost(), Psn(100));
  EXPECT_EQ(part.LostRun(), 3u);
  EXPECT_EQ(part.AddMissing(works, Psn(100), map.map()), 0u);
  for (const uint32_t psn : {100, 101, 102, 104}) {
    ASSERT_TRUE(part.has_lost());
    EXPECT_EQ(part.NextLost(), Psn(psn));
    part.OnResent(Psn(psn), 1);
  }
  EXPECT_FALSE(part.has_lost());
  EXPECT_EQ(part.AddMissing(works, Psn(100), map.map()), 0u) << "it may be on its way";
}

// [sr.alone] What was never sent, or is to be sent anyway, is not lost.
TEST_F(SelectiveRepeatTest, AMapReachesNoFurtherThanWhatIsInFlight) {
  SendWhole(works, Write(4 * kSmallMtu));
  EXPECT_EQ(part.AddMissing(works, Psn(102), MapOf(64, 0).map()), 2u);
  works.GoBack();
  part.OnGoBack(works.una());
  EXPECT_EQ(part.AddMissing(works, Psn(100), MapOf(64, 0).map()), 0u);
}

// [sr.round] It was resent in the round before, and something sent later has arrived.
TEST_F(SelectiveRepeatTest, WhatWasResentIsLostAgainTwoRoundsLater) {
  SendWhole(works, Write(8 * kSmallMtu));
  EXPECT_TRUE(part.AddHole(works, Psn(100)));
  part.OnResent(Psn(100), 1);
  EXPECT_FALSE(part.AddHole(works, Psn(100)));
  part.OnRound(works.una());
  EXPECT_FALSE(part.AddHole(works, Psn(100)));
  part.OnRound(works.una());
  EXPECT_TRUE(part.AddHole(works, Psn(100)));
}

// [sr.round]
TEST_F(SelectiveRepeatTest, WhatArrivesEndsTheRoundItWasSentIn) {
  SendWhole(works, Write(2 * kSmallMtu));
  round.OnSent(works.next_psn(), Nanos(0));
  SendWhole(works, Write(2 * kSmallMtu));
  EXPECT_FALSE(part.TakeArrived(works, Psn(100), MapOf(2, 0b10).map(), round));
  EXPECT_TRUE(part.TakeArrived(works, Psn(100), MapOf(3, 0b100).map(), round));
}

// [sr.read] The responder has executed all before PSN 105: the responses 101 and 103 are lost.
TEST_F(SelectiveRepeatTest, ResponsesThatWerePassedOverAreLost) {
  SendWhole(works, Read(4 * kSmallMtu));
  SendWhole(works, Write(kSmallMtu));
  SendWhole(works, Write(kSmallMtu));
  for (const uint32_t psn : {100, 102}) {
    part.OnEarlyResponse(Psn(psn));
    part.OnTaken(Psn(psn));
  }
  EXPECT_TRUE(part.HasTaken(Psn(102)));
  part.OnRound(works.una());  // Looks at all of them once more.
  EXPECT_TRUE(part.NoteExecuted(works, Psn(105)));
  EXPECT_EQ(part.resend().cause, ResendCause::kImpliedNak);
  EXPECT_EQ(part.NextLost(), Psn(101));
  EXPECT_EQ(part.LostRun(), 1u);
  EXPECT_TRUE(part.WasExecuted(Psn(104)));
  EXPECT_FALSE(part.WasExecuted(Psn(105)));
  EXPECT_FALSE(part.NoteExecuted(works, Psn(105))) << "it says nothing new";
  part.AcknowledgeExecuted(works);
  EXPECT_EQ(works.una(), Psn(101));
  for (const uint32_t psn : {101, 103}) part.OnTaken(Psn(psn));
  part.AcknowledgeExecuted(works);
  EXPECT_EQ(works.una(), Psn(105)) << "the READ, and the WRITE that was executed behind it";
}

// [sr.probe] What was asked for again, or its answer, was lost too.
TEST_F(SelectiveRepeatTest, AsksAgainForWhatWasOnItsWay) {
  SendWhole(works, Read(2 * kSmallMtu));
  EXPECT_FALSE(part.AwaitsResponses(works.una()));
  EXPECT_TRUE(part.NoteExecuted(works, Psn(102)));
  EXPECT_TRUE(part.AwaitsResponses(works.una()));
  part.OnResent(Psn(100), 2);
  EXPECT_FALSE(part.has_lost());
  EXPECT_TRUE(part.AskAgain(works));
  EXPECT_EQ(part.LostRun(), 2u);
}

}  // namespace
}  // namespace uroce::transport
