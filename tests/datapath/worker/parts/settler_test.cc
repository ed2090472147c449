// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/settler.h"

#include "tests/datapath/work_codes.h"
#include "tests/datapath/worker/parts/work_parts.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kPullBurst = 32;  // Works taken of one queue in a turn.

class SettlerTest : public WorkPartsTest {
 protected:
  ~SettlerTest() override {
    for (const auto& endpoint : endpoints_) timers_.Remove(*endpoint->qp);
  }

  static void Post(Endpoint& endpoint, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) endpoint.PostSend({.opcode = kWrite, .wr_id = i});
  }
  /// As a rung bell has it.
  void Settle(Endpoint& endpoint) {
    endpoint.qp->works().LookForSends();
    ready_.Touch(*endpoint.qp);
    settler_.SettleTouched();
  }
  std::vector<QueuePair*> Postponed() {
    time_.Begin(time_.now() + Nanos(1000));
    std::vector<QueuePair*> postponed;
    ready_.TakePostponed([&](QueuePair& qp) { postponed.push_back(&qp); });
    return postponed;
  }

  QueuePairTimers timers_;
  Settler settler_{{.completions = completions_,
                    .congestion = congestion_,
                    .key_changes = key_changes_,
                    .timers = timers_,
                    .ready = ready_,
                    .states = states_,
                    .time = time_}};
  Endpoint& endpoint_ = AddConnected();
  QueuePair& qp_ = *endpoint_.qp;
};

TEST_F(SettlerTest, WhoHasPostedIsScheduledAndWhoHasNotIsNot) {
  Settle(endpoint_);
  EXPECT_TRUE(port_->sessions().empty());
  Post(endpoint_, 1);
  Settle(endpoint_);
  EXPECT_FALSE(port_->sessions().empty());
  EXPECT_TRUE(qp_.core().HasPacket());
}

TEST_F(SettlerTest, ManyWorksAreTakenInSeveralTurns) {
  Post(endpoint_, kPullBurst + 1);
  Settle(endpoint_);
  EXPECT_EQ(qp_.core().post_room(), AddConnected().qp->core().post_room() - kPullBurst);
  EXPECT_EQ(Postponed(), std::vector<QueuePair*>{&qp_});
  settler_.SettleTouched();
  EXPECT_TRUE(Postponed().empty()) << "the rest is taken";
}

TEST_F(SettlerTest, WhoWaitsForACopyIsLeftAlone) {
  Post(endpoint_, 1);
  qp_.set_wait(WaitKind::kEffect);
  Settle(endpoint_);
  EXPECT_FALSE(qp_.core().HasPacket());
  EXPECT_TRUE(port_->sessions().empty());
  qp_.set_wait(WaitKind::kNone);
}

TEST_F(SettlerTest, WorksOfAQueuePairInErrorCompleteInTheSameTurn) {
  states_.Modify(qp_, transport::QpState::kErr, Wanted());
  Post(endpoint_, 3);
  Settle(endpoint_);
  uroce_cqe cqe;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(endpoint_.PollSend(cqe));
    EXPECT_EQ(cqe.wr_id, i);
  }
  EXPECT_FALSE(endpoint_.PollSend(cqe));
}

TEST_F(SettlerTest, ATimerThatFiresHasItsQueuePairSettled) {
  Post(endpoint_, 1);
  Settle(endpoint_);
  transport::TxPacket packet;
  ASSERT_TRUE(qp_.core().PollPacket(time_.now(), packet));
  Settle(endpoint_);  // The packet is under way: its deadline is filed.
  ASSERT_NE(timers_.NextDeadline(), kNever);
  EXPECT_FALSE(settler_.Expire(true)) << "it is not time yet";
  EXPECT_FALSE(qp_.core().HasPacket());
  time_.Begin(time_.now() + Nanos(1'000'000'000));
  EXPECT_TRUE(settler_.Expire(true));
  settler_.SettleTouched();
  EXPECT_TRUE(qp_.core().HasPacket()) << "it is sent again";
  EXPECT_FALSE(port_->sessions().empty());
}

TEST_F(SettlerTest, ATransportThatFailsIsShownToTheProgram) {
  qp_.core().Modify(transport::QpState::kErr, Wanted());
  Settle(endpoint_);
  EXPECT_EQ(endpoint_.page_state(), static_cast<uint32_t>(transport::QpState::kErr));
}

}  // namespace
}  // namespace uroce::datapath
