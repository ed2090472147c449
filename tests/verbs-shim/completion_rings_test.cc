// SPDX-License-Identifier: Apache-2.0
// One completion queue whose queue pairs live on two workers, and ibv_resize_cq.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

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

  /// A completion that no request of ours waits for.
  static uroce_cqe Entry(const ibv_qp* qp, uint64_t wr_id) {
    return {.wr_id = wr_id, .qp_handle = qp->handle, .qp_num = qp->qp_num, .wqe_index = ~0u};
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
