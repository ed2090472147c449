// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/state_changes.h"

#include <utility>

#include "tests/datapath/worker/parts.h"

namespace uroce::datapath {
namespace {

class FailedQueuePairsTest : public PartsTest, public FailureSink {
 protected:
  FailedQueuePairsTest() { Record(); }
  void Record() { qp_.set_history(std::make_unique<PacketHistory>(4)); }
  void Take(FailedQueuePair failed) override { told_.push_back(std::move(failed)); }

  QueuePair& qp_ = AddQueuePair();
  FailedQueuePairs failed_{this, time_};
  std::vector<FailedQueuePair> told_;
};

TEST_F(FailedQueuePairsTest, EachIsToldOfOnceWithItsPackets) {
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

TEST_F(FailedQueuePairsTest, OneThatIsUsedAgainFailsForAReasonOfItsOwn) {
  failed_.Add(qp_, FailureCause::kCompletionQueue);
  failed_.Deliver();
  Record();
  failed_.Add(qp_, FailureCause::kTransport);
  failed_.Deliver();
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1].cause, FailureCause::kTransport);
}

TEST_F(FailedQueuePairsTest, WhoGoesIsToldOfAtOnce) {
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
