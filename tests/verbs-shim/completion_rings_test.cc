// SPDX-License-Identifier: Apache-2.0
// One completion queue whose queue pairs live on two workers, and ibv_resize_cq.
#include <algorithm>
#include <atomic>
#include <thread>

#include "pipeline/shm/rings/doorbells.h"
#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

/// A completion that no request of ours waits for.
uroce_cqe Entry(const ibv_qp* qp, uint64_t wr_id) {
  return {.wr_id = wr_id, .qp_handle = qp->handle, .qp_num = qp->qp_num, .wqe_index = ~0u};
}

class CompletionRingsTest : public ShimTest {
 protected:
  CompletionRingsTest() : ShimTest(2) {}

  void SetUp() override {
    ShimTest::SetUp();
    daemon_->set_worker(1);
    other_ = CreateQp();
    ASSERT_NE(other_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(other_), 0);
    ShimTest::TearDown();
  }

  void Push(uint32_t worker, uint64_t wr_id) {
    ASSERT_EQ(fake_cq().ring(worker).Push(Entry(worker == 0 ? qp_ : other_, wr_id)),
              rings::PushResult::kOk);
  }

  ibv_qp* other_ = nullptr;
};

TEST_F(CompletionRingsTest, CompletionsOfBothWorkersAreFound) {
  Push(1, 10);
  Push(0, 1);
  Push(1, 11);
  std::vector<uint64_t> ids = PollAll();
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, (std::vector<uint64_t>{1, 10, 11}));
}

TEST_F(CompletionRingsTest, AQueuePairMoreOnAKnownWorkerDisturbsNothing) {
  Push(1, 10);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{10});
  Push(1, 11);
  ibv_qp* third = CreateQp();
  ASSERT_NE(third, nullptr);
  Push(1, 12);
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{11, 12}));
  EXPECT_EQ(ibv_destroy_qp(third), 0);
}

TEST_F(CompletionRingsTest, CompletionsOfADestroyedQueuePairAreGoneFromItsWorkersRing) {
  ibv_qp* third = CreateQp();
  Push(0, 1);
  ASSERT_EQ(fake_cq().ring(1).Push(Entry(third, 77)), rings::PushResult::kOk);
  Push(1, 10);
  EXPECT_EQ(ibv_destroy_qp(third), 0);
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{1, 10}));
}

/// Queue pairs that move to another worker when they are connected.
class PlacementTest : public ShimTest {
 protected:
  PlacementTest() : ShimTest(2) {}

  static constexpr int kConnects = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN;

  static int Modify(ibv_qp* qp, ibv_qp_state state, int mask = kConnects) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    attr.dest_qp_num = 0x123;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid.raw[15] = 9;
    return ibv_modify_qp(qp, &attr, mask);
  }
  /// The slots of the doorbells that were rung at a worker.
  std::vector<uint32_t> TakeBells(uint32_t worker) {
    std::vector<uint32_t> slots;
    (void)rings::Take(daemon_->doorbells(worker), [&](uint32_t slot) { slots.push_back(slot); });
    return slots;
  }
  std::vector<uint32_t> BellOf(const ibv_qp* qp) {
    return {daemon_->qp(qp->handle).reply.doorbell_slot};
  }
  bool WasPlaced() { return daemon_->Last(UROCE_PLACE_QP).command != 0; }
};

TEST_F(PlacementTest, AQueuePairThatIsConnectedUsesTheWorkerThatTheDaemonNames) {
  daemon_->set_worker(1);
  ASSERT_EQ(Modify(qp_, IBV_QPS_RTR), 0);
  const auto asked = daemon_->Last(UROCE_PLACE_QP).As<uroce_modify_qp>();
  EXPECT_EQ(asked.handle, qp_->handle);
  EXPECT_EQ(asked.attr.dest_qp_num, 0x123u);
  EXPECT_EQ(asked.attr.ah_attr.dgid[15], 9);
  MoveTo(IBV_QPS_RTS);
  ibv_sge sge = {};
  ASSERT_EQ(Post(Write(1, &sge)), 0);
  EXPECT_EQ(TakeBells(1), BellOf(qp_));
  EXPECT_TRUE(TakeBells(0).empty());
  const uroce_cqe entry = Entry(qp_, 7);
  ASSERT_EQ(fake_cq().ring(1).Push(entry), rings::PushResult::kOk);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{7}) << "the ring of the new worker is polled";
}

TEST_F(PlacementTest, AQueuePairThatIsNotPlacedStaysAndIsConnected) {
  daemon_->set_worker(1);
  daemon_->FailNext(UROCE_PLACE_QP, ENOMEM);
  ASSERT_EQ(Modify(qp_, IBV_QPS_RTR), 0);
  EXPECT_EQ(daemon_->Last(UROCE_MODIFY_QP).As<uroce_modify_qp>().attr.dest_qp_num, 0x123u);
  MoveTo(IBV_QPS_RTS);
  ibv_sge sge = {};
  ASSERT_EQ(Post(Write(1, &sge)), 0);
  EXPECT_EQ(TakeBells(0), BellOf(qp_));
  EXPECT_TRUE(TakeBells(1).empty());
}

TEST_F(PlacementTest, AQueuePairThatTheDaemonMovesUsesItsNewWorker) {
  ibv_sge sge = {};
  ASSERT_EQ(Post(Write(1, &sge)), 0);
  EXPECT_EQ(TakeBells(0), BellOf(qp_));
  daemon_->Move(qp_->handle, 1);
  ASSERT_EQ(Post(Write(2, &sge)), 0);
  EXPECT_EQ(TakeBells(1), BellOf(qp_));
  EXPECT_TRUE(TakeBells(0).empty());
  const uroce_cqe entry = Entry(qp_, 7);
  ASSERT_EQ(fake_cq().ring(1).Push(entry), rings::PushResult::kOk);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{7});
}

// More completions of the former worker wait than one poll takes.
TEST_F(PlacementTest, CompletionsOfAMovedQueuePairAreFoundBesideThoseOfOthers) {
  const uroce_cqe entry = Entry(qp_, 7);
  daemon_->Move(qp_->handle, 1);
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(fake_cq().ring(0).Push(entry), rings::PushResult::kOk);
    ASSERT_EQ(fake_cq().ring(1).Push(entry), rings::PushResult::kOk);
  }
  EXPECT_EQ(PollAll().size(), 32u);
}

TEST_F(PlacementTest, CompletionsOfAMovedQueuePairGoWithIt) {
  ibv_qp* moved = CreateQp();
  ASSERT_NE(moved, nullptr);
  daemon_->Move(moved->handle, 1);
  const uroce_cqe entry = Entry(moved, 7);
  ASSERT_EQ(fake_cq().ring(1).Push(entry), rings::PushResult::kOk);
  EXPECT_EQ(ibv_destroy_qp(moved), 0) << "no poll has looked at the ring of worker 1 yet";
  EXPECT_EQ(fake_cq().ring(1).layout().entries[0].qp_handle, UROCE_NONE)
      << "the daemon may give its handle to another queue pair";
  EXPECT_TRUE(PollAll().empty());
}

// While a thread posts, the queue pair moves, and its new worker looks at the queue once: the
// worker finds the request then, or its doorbell.
TEST_F(PlacementTest, NoRequestIsLostBetweenTwoWorkers) {
  constexpr uint32_t kRounds = 20'000;
  std::atomic<uint32_t> begun{0};
  std::atomic<uint32_t> moved{0};
  std::atomic<uint32_t> seen{0};
  uroce_qp_page& page = *fake_qp().page;
  std::thread mover([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (begun != round) std::this_thread::yield();
      for (uint32_t i = 0; i < round % 64; ++i) (void)begun.load();  // Each time at another point.
      rings::StoreRelaxed(page.worker.value, round % 2);
      rings::FullFence();
      seen = rings::LoadAcquire(page.sq_produced.value);
      moved = round;
    }
  });
  ibv_sge sge = {};
  uint32_t lost = 0;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    begun = round;
    EXPECT_EQ(Post(Write(round, &sge)), 0);
    while (moved != round) std::this_thread::yield();
    const bool has_rung = !TakeBells(round % 2).empty();
    if (seen != round && !has_rung) ++lost;
    (void)TakeBells(1 - round % 2);
    Complete(round - 1, round);
    EXPECT_EQ(PollAll().size(), 1u);
  }
  mover.join();
  EXPECT_EQ(lost, 0u);
}

TEST_F(PlacementTest, AWorkerThatDoesNotExistIsNotRung) {
  rings::StoreRelaxed(fake_qp().page->worker.value, 2u);
  ibv_sge sge = {};
  ASSERT_EQ(Post(Write(1, &sge)), 0);
  EXPECT_TRUE(TakeBells(0).empty());
  EXPECT_TRUE(TakeBells(1).empty());
}

TEST_F(PlacementTest, OnlyAConnectionIsPlaced) {
  ASSERT_EQ(Modify(qp_, IBV_QPS_RTS), 0) << "it is connected already";
  ASSERT_EQ(Modify(qp_, IBV_QPS_RTR, IBV_QP_STATE), 0) << "without a destination";
  ibv_qp* datagrams = CreateQp(cq_, false, IBV_QPT_UD);
  ASSERT_NE(datagrams, nullptr);
  ASSERT_EQ(Modify(datagrams, IBV_QPS_RTR), 0);
  EXPECT_FALSE(WasPlaced());
  EXPECT_EQ(ibv_destroy_qp(datagrams), 0);
}

TEST_F(CompletionRingsTest, AResizeKeepsWhatWaitsInEveryRing) {
  for (uint64_t i = 0; i < 5; ++i) {
    Push(0, i);
    Push(1, 100 + i);
  }
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  ASSERT_EQ(ibv_resize_cq(cq_, 100), 0);
  EXPECT_EQ(cq_->cqe, 128);
  Push(0, 5);
  Push(1, 105);
  std::vector<uint64_t> first;
  std::vector<uint64_t> second;
  for (const uint64_t id : PollAll()) (id < 100 ? first : second).push_back(id);
  EXPECT_EQ(first, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(second, (std::vector<uint64_t>{100, 101, 102, 103, 104, 105}));
}

TEST_F(CompletionRingsTest, AResizeBelowWhatWaitsIsRefusedAndChangesNothing) {
  for (uint64_t i = 0; i < 3; ++i) {
    Push(0, i);
    Push(1, 100 + i);
  }
  const int before = cq_->cqe;
  EXPECT_EQ(ibv_resize_cq(cq_, 5), EINVAL);
  EXPECT_EQ(cq_->cqe, before);
  EXPECT_EQ(ibv_resize_cq(cq_, 6), 0);
  EXPECT_EQ(cq_->cqe, 8);
  EXPECT_EQ(PollAll().size(), 6u);
}

TEST_F(CompletionRingsTest, AResizeChecksItsArgument) {
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_, -1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_, (1 << 20) + 1), EINVAL);
  daemon_->FailNext(UROCE_RESIZE_CQ, ENOMEM);
  EXPECT_EQ(ibv_resize_cq(cq_, 64), ENOMEM);
  EXPECT_EQ(daemon_->Last(UROCE_RESIZE_CQ).As<uroce_resize_cq>().cqe, 64u);
}

// Pollers wait for the resize, and go on in the new ring.
TEST_F(CompletionRingsTest, AThreadThatPollsMissesNothingOfAResize) {
  constexpr uint64_t kCount = 200;
  std::atomic<uint64_t> polled{0};
  std::thread poller([&] {
    ibv_wc wc;
    while (polled < kCount) {
      const int got = ibv_poll_cq(cq_, 1, &wc);
      ASSERT_GE(got, 0);
      if (got == 0) continue;
      EXPECT_EQ(wc.wr_id, polled);
      ++polled;
    }
  });
  for (uint64_t i = 0; i < kCount; ++i) {
    while (i - polled > 8) std::this_thread::yield();
    Push(1, i);
    if (i % 10 == 9) {
      EXPECT_EQ(ibv_resize_cq(cq_, i % 20 == 9 ? 64 : 16), 0);
    }
  }
  poller.join();
}

}  // namespace
}  // namespace uroce::shim_test
