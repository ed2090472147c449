// SPDX-License-Identifier: Apache-2.0
// The works of a send queue: their order, their progress and their failure.
#include <gtest/gtest.h>

#include "pipeline/transport/send_queue.h"
#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

// Works, their PSNs, and how far they have come (pipeline/transport/send_queue.h).

using wire::Psn;

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kFirst = 0xfffffe;  // PSNs are circular.

SendWorks WithWorks(std::initializer_list<SendWork> posted) {
  SendWorks works(8);
  works.SetMtu(PathMtu(kMtu));
  works.Start(Psn(kFirst));
  uint32_t slot = 0;
  for (SendWork work : posted) {
    work.slot = slot++;
    EXPECT_EQ(works.Post(work), PostResult::kPosted);
  }
  return works;
}

/// Sends what the next packet of the next work takes.
void SendNext(SendWorks& works) {
  if (works.next_is_new()) works.Begin();
  const HeldWork& work = works.next();
  const bool is_read = work.is_read();
  works.Advance(work, is_read ? work.packets - Distance(work.first_psn, works.next_psn()) : 1);
}

TEST(SendWorksTest, AFullRingTakesNoMore) {
  SendWorks works(2);
  EXPECT_EQ(works.Post(Send(0)), PostResult::kPosted);
  EXPECT_EQ(works.Post(Send(0)), PostResult::kPosted);
  EXPECT_EQ(works.Post(Send(0)), PostResult::kQueueFull);
  EXPECT_EQ(works.room(), 0u);
}

TEST(SendWorksTest, AReadTakesThePsnsOfItsResponsesAndIsOneRequest) {
  SendWorks works = WithWorks({Read(3 * kMtu), Write(2 * kMtu)});
  for (int i = 0; i < 3; ++i) SendNext(works);
  EXPECT_EQ(works.unsent(), 0u);
  EXPECT_EQ(works.InFlight(), 5u);
  EXPECT_EQ(works.RequestsInFlight(), 3u);
  EXPECT_EQ(works.reads_outstanding(), 1u);
  EXPECT_EQ(works.next_psn(), Psn(kFirst + 5));
  EXPECT_EQ(works.IndexOf(Psn(kFirst + 2), works.head_index()), 0u);
  EXPECT_EQ(works.IndexOf(Psn(kFirst + 3), works.head_index()), 1u);
}

TEST(SendWorksTest, ResponsesAreCountedUntilTheyCome) {
  SendWorks works = WithWorks({Read(2 * kMtu + 5), Write(kMtu), Read(7)});
  for (int i = 0; i < 3; ++i) SendNext(works);
  EXPECT_EQ(works.ResponsesInFlight(), 4u);
  EXPECT_EQ(works.ResponseBytesInFlight(), 2 * kMtu + 12);
  works.TakeResponse();
  EXPECT_EQ(works.ResponsesInFlight(), 3u);
  EXPECT_EQ(works.ResponseBytesInFlight(), kMtu + 12);
  works.GoBack();
  EXPECT_EQ(works.ResponsesInFlight(), 0u);
  EXPECT_EQ(works.ResponseBytesInFlight(), 0u);
  SendNext(works);
  EXPECT_EQ(works.ResponseBytesInFlight(), kMtu + 5);
  for (int i = 0; i < 2; ++i) works.TakeResponse();
  EXPECT_EQ(works.ResponsesInFlight(), 0u);
  EXPECT_EQ(works.ResponseBytesInFlight(), 0u);
  for (int i = 0; i < 2; ++i) SendNext(works);
  works.GoBackTo(Psn(kFirst + 4));
  EXPECT_EQ(works.ResponseBytesInFlight(), 0u);
}

TEST(SendWorksTest, AnAcknowledgementStopsAtARead) {
  SendWorks works = WithWorks({Write(0), Write(2 * kMtu), Read(2 * kMtu), Write(0)});
  for (int i = 0; i < 5; ++i) SendNext(works);
  SendWorks::Progress progress = works.AcknowledgeBefore(Psn(kFirst + 2));
  EXPECT_EQ(progress.packets, 2u);
  EXPECT_FALSE(progress.blocked);
  EXPECT_EQ(works.head_index(), 1u) << "half of it is acknowledged";
  progress = works.AcknowledgeBefore(works.next_psn());
  EXPECT_EQ(progress.packets, 1u);
  EXPECT_TRUE(progress.blocked);
  works.TakeResponse();
  EXPECT_EQ(works.RequestsInFlight(), 2u) << "the rest of the READ, and the WRITE";
  works.TakeResponse();
  EXPECT_EQ(works.reads_outstanding(), 0u);
  progress = works.AcknowledgeBefore(works.next_psn());
  EXPECT_EQ(progress.packets, 1u);
  EXPECT_FALSE(works.under_way());
  for (uint32_t slot = 0; slot < 4; ++slot) {
    ASSERT_TRUE(works.has_completed());
    EXPECT_EQ(works.TakeCompleted().slot, slot);
  }
  EXPECT_TRUE(works.empty());
}

TEST(SendWorksTest, GoingBackMovesThePositionAlone) {
  SendWorks works = WithWorks({Write(2 * kMtu), Read(4 * kMtu), Write(2 * kMtu)});
  for (int i = 0; i < 5; ++i) SendNext(works);
  works.GoBackTo(Psn(kFirst + 7));
  EXPECT_TRUE(works.resends());
  EXPECT_EQ(works.next_index(), 2u);
  EXPECT_EQ(works.RequestsInFlight(), 4u) << "two of the WRITE, the READ, one of the last";
  works.GoBack();
  EXPECT_EQ(works.next_index(), 0u);
  EXPECT_EQ(works.InFlight(), 0u);
  EXPECT_EQ(works.Outstanding(), 8u);
  for (int i = 0; i < 5; ++i) SendNext(works);
  EXPECT_FALSE(works.resends());
  EXPECT_EQ(works.RequestsInFlight(), 5u);
}

TEST(SendWorksTest, WhatIsAcknowledgedAfterAllIsNotSentAgain) {
  SendWorks works = WithWorks({Write(4 * kMtu)});
  for (int i = 0; i < 4; ++i) SendNext(works);
  works.GoBack();
  works.AcknowledgeBefore(Psn(kFirst + 3));
  works.SkipAcknowledged();
  EXPECT_EQ(works.next_psn(), Psn(kFirst + 3));
}

TEST(SendWorksTest, APacketThatNeverLeftGivesItsPsnBack) {
  SendWorks works = WithWorks({Write(2 * kMtu), Write(0)});
  for (int i = 0; i < 3; ++i) SendNext(works);
  EXPECT_EQ(works.TakeBack(Psn(kFirst + 2), true), 1u);
  EXPECT_EQ(works.Outstanding(), 2u);
  EXPECT_EQ(works.next_index(), 1u);
}

TEST(SendWorksTest, ALocalWorkHasNoPsnAndEndsWithWhatIsBeforeIt) {
  SendWorks works = WithWorks({Write(0), Bind(), Write(0)});
  SendNext(works);
  EXPECT_EQ(works.local_index(), 1u);
  works.EndLocal();
  SendNext(works);
  EXPECT_EQ(works.InFlight(), 2u);
  works.GoBack();
  SendNext(works);
  EXPECT_EQ(works.next_index(), 2u) << "it is not done again";
  works.AcknowledgeBefore(Psn(kFirst + 1));
  EXPECT_EQ(works.head_index(), 2u);
}

TEST(SendWorksTest, WhatIsGivenUpComesBehindWhatIsComplete) {
  SendWorks works = WithWorks({Write(0), Write(0), Write(0)});
  for (int i = 0; i < 2; ++i) SendNext(works);
  works.AcknowledgeBefore(Psn(kFirst + 1));
  EXPECT_EQ(works.TakeCompleted().slot, 0u);
  EXPECT_EQ(works.TakeFlushed().slot, 1u);
  EXPECT_EQ(works.TakeFlushed().slot, 2u);
  EXPECT_TRUE(works.empty());
  EXPECT_FALSE(works.under_way());
}

// How a send queue fails (pipeline/transport/send_queue.h).

TEST(HeadFailureTest, AnUnfitWorkWaitsForItsTurn) {
  HeadFailure failure;
  EXPECT_FALSE(failure.IsPendingAt(0));
  failure.FailAtHead(5, WcStatus::kLocLenErr);
  EXPECT_FALSE(failure.IsPendingAt(4));
  EXPECT_TRUE(failure.IsPendingAt(5));
  EXPECT_EQ(failure.pending_status(), WcStatus::kLocLenErr);
  EXPECT_FALSE(failure.failed());
}

TEST(HeadFailureTest, TheFailedWorkCompletesWithItsOwnStatusAndAllOthersFlushed) {
  HeadFailure failure;
  failure.Fail({.side = Failure::Side::kRequester, .status = WcStatus::kRetryExcErr});
  EXPECT_TRUE(failure.failed());
  EXPECT_EQ(failure.failure().status, WcStatus::kRetryExcErr);
  EXPECT_EQ(failure.TakeStatus(), WcStatus::kRetryExcErr);
  EXPECT_EQ(failure.TakeStatus(), WcStatus::kWrFlushErr);
}

TEST(HeadFailureTest, ResetForgetsWhatWasToFail) {
  HeadFailure failure;
  failure.FailAtHead(0, WcStatus::kLocLenErr);
  failure.Fail({.status = WcStatus::kLocLenErr});
  failure.Reset();
  EXPECT_FALSE(failure.failed());
  EXPECT_FALSE(failure.IsPendingAt(0));
  EXPECT_EQ(failure.TakeStatus(), WcStatus::kWrFlushErr);
}

}  // namespace
}  // namespace uroce::transport
