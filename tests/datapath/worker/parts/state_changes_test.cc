// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/state_changes.h"

#include <utility>

#include "tests/datapath/worker/parts/parts.h"
#include "tests/datapath/worker/parts/work_parts.h"

namespace uroce::datapath {
namespace {

using transport::QpState;

constexpr uint32_t kQpFatal = 1;

class StateChangesTest : public WorkPartsTest {
 protected:
  StateChangesTest() {
    acknowledge_all_ = [this](QueuePair& qp) { answered_in_.push_back(qp.core().state()); };
  }
  uint32_t Shown() const { return endpoint_.page_state(); }

  Endpoint& endpoint_ = AddConnected();
  QueuePair& qp_ = *endpoint_.qp;
  std::vector<QpState> answered_in_;  ///< Each time that all answers were to leave.
};

// Its peer is to learn of what its program may have seen complete.
TEST_F(StateChangesTest, AnswersLeaveBeforeAQueuePairStops) {
  states_.Modify(qp_, QpState::kErr, Wanted());
  EXPECT_EQ(answered_in_, std::vector<QpState>{QpState::kRts});
  EXPECT_EQ(Shown(), static_cast<uint32_t>(QpState::kErr));
  states_.Modify(qp_, QpState::kReset, Wanted());
  EXPECT_EQ(answered_in_.size(), 2u);
}

TEST_F(StateChangesTest, AQueuePairThatGoesOnOwesItsAnswersStill) {
  states_.Modify(qp_, QpState::kSqd, Wanted());
  EXPECT_TRUE(answered_in_.empty());
  EXPECT_EQ(qp_.core().state(), QpState::kSqd);
  EXPECT_EQ(Shown(), static_cast<uint32_t>(QpState::kSqd));
}

TEST_F(StateChangesTest, AChangeIsLookedAfterInThisTurn) {
  states_.Modify(qp_, QpState::kSqd, Wanted());
  std::vector<QueuePair*> touched;
  ready_.TakeTouched([&](QueuePair& qp) { touched.push_back(&qp); });
  EXPECT_EQ(touched, std::vector<QueuePair*>{&qp_});
  EXPECT_TRUE(qp_.works().may_have_sends());
}

TEST_F(StateChangesTest, AChangeWaitsForTheEndOfACopyAndIsShownAtOnce) {
  qp_.set_wait(WaitKind::kEffect);
  states_.Modify(qp_, QpState::kErr, Wanted());
  EXPECT_EQ(qp_.core().state(), QpState::kRts);
  EXPECT_EQ(Shown(), static_cast<uint32_t>(QpState::kErr));
  EXPECT_TRUE(answered_in_.empty());
  qp_.set_wait(WaitKind::kNone);
  states_.ApplyPending(qp_);
  EXPECT_EQ(qp_.core().state(), QpState::kErr);
  states_.ApplyPending(qp_);
  EXPECT_EQ(answered_in_.size(), 1u) << "what waited is applied once";
}

// A program resets a queue pair to have done with it: nothing holds that up.
TEST_F(StateChangesTest, AResetWaitsForNothing) {
  EXPECT_TRUE(waiting_packets_.Keep(qp_, NewFrame({1, 2, 3})));
  qp_.set_wait(WaitKind::kGather);
  states_.Modify(qp_, QpState::kReset, Wanted());
  EXPECT_FALSE(qp_.is_waiting());
  EXPECT_EQ(qp_.waiting().packets, 0u);
  EXPECT_EQ(qp_.core().state(), QpState::kReset);
}

TEST_F(StateChangesTest, AQueuePairFailsOnce) {
  states_.Fail(qp_, FailureCause::kCompletionQueue);
  EXPECT_EQ(qp_.core().state(), QpState::kErr);
  states_.Fail(qp_, FailureCause::kCompletionQueue);
  EXPECT_EQ(answered_in_.size(), 1u);
}

TEST_F(StateChangesTest, ACorruptQueueIsCountedAndTold) {
  states_.FailCorrupt(qp_, FailureCause::kSendQueue);
  EXPECT_EQ(qp_.core().state(), QpState::kErr);
  EXPECT_EQ(device_.Sum(&DeviceCounters::sq_corrupt), 1u);
  EXPECT_EQ(device_.Sum(&DeviceCounters::rq_corrupt), 0u);
  const std::optional<uroce_event_record> event = endpoint_.events->Read();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, kQpFatal);
}

TEST_F(StateChangesTest, FramesBehindAHoleGoWithTheStateThatKeptThem) {
  ASSERT_TRUE(
      kept_frames_.Keep(qp_.kept(), qp_.program().frames, wire::Psn(5), NewFrame({1, 2, 3})));
  states_.Modify(qp_, QpState::kSqd, Wanted());
  EXPECT_EQ(kept_frames_.count(), 1u);
  states_.Modify(qp_, QpState::kErr, Wanted());
  EXPECT_EQ(kept_frames_.count(), 0u);
}

class FailedQueuePairsTest : public PartsTest, public FailureSink {
 protected:
  FailedQueuePairsTest() { Record(); }
  void Record() { qp_.set_history(std::make_unique<PacketHistory>(4)); }
  void Take(FailedQueuePair failed) override { told_.push_back(std::move(failed)); }

  QueuePair& qp_ = AddQueuePair();
  FailedQueuePairs failed_{this, time_};
  std::vector<FailedQueuePair> told_;
};

TEST_F(FailedQueuePairsTest, EachIsReportedOnceWithItsPackets) {
  failed_.Add(qp_, FailureCause::kSendQueue);
  failed_.Add(qp_, FailureCause::kTransport);
  failed_.Deliver();
  failed_.Deliver();
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].qpn, qp_.qpn());
  EXPECT_EQ(told_[0].cause, FailureCause::kSendQueue) << "what was said first";
  EXPECT_NE(told_[0].history, nullptr);
  EXPECT_EQ(qp_.history(), nullptr);
}

TEST_F(FailedQueuePairsTest, OneThatIsUsedAgainFailsForItsOwnReason) {
  failed_.Add(qp_, FailureCause::kCompletionQueue);
  failed_.Deliver();
  Record();
  failed_.Add(qp_, FailureCause::kTransport);
  failed_.Deliver();
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1].cause, FailureCause::kTransport);
}

TEST_F(FailedQueuePairsTest, OneThatGoesIsReportedAtOnce) {
  failed_.Add(qp_, FailureCause::kTransport);
  failed_.Remove(qp_);
  EXPECT_EQ(told_.size(), 1u);
  failed_.Deliver();
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(FailedQueuePairsTest, WithoutPacketsThereIsNothingToTell) {
  QueuePair& other = AddQueuePair();
  failed_.Add(other, FailureCause::kTransport);
  failed_.Deliver();
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace uroce::datapath
