// SPDX-License-Identifier: Apache-2.0
// Which threads ask the kernel for short time slices.
#include "verbs-shim/poller.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "tests/verbs-shim/shim_fixture.h"
#include "tests/verbs-shim/yields.h"

namespace uroce::shim_test {
namespace {

using shim::SchedAttr;

/// A thread begins with the slices of the one that made it.
class SliceTest : public ShimTest {
 protected:
  static constexpr uint64_t kShortNs = 100'000;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ShimTest::SetUp());
    SchedAttr own = Scheduling();
    if (own.slice_ns == 0) GTEST_SKIP() << "this kernel (before 6.12) has slices of one size";
    own.slice_ns = 30 * kShortNs;
    ASSERT_EQ(Set(own), 0);
  }

  static SchedAttr Scheduling() {
    SchedAttr attributes;
    EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
    return attributes;
  }
  static int Set(const SchedAttr& attributes) {
    return static_cast<int>(syscall(SYS_sched_setattr, 0, &attributes, 0));
  }
  /// Yields in a thread of its own, which others keep from the core for so long; returns how the
  /// kernel schedules the thread then. `prepare` is run in the thread before.
  SchedAttr AfterYieldsOf(useconds_t us, const std::function<void()>& prepare = {}) {
    g_others = [us] { usleep(us); };
    SchedAttr after;
    std::thread([&] {
      if (prepare) prepare();
      ibv_wc wc;
      for (int i = 0; i < 20; ++i) EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
      after = Scheduling();
    }).join();
    g_others = nullptr;
    return after;
  }
};

TEST_F(SliceTest, AThreadThatOthersKeepWaitingAsksForShortSlices) {
  const SchedAttr before = Scheduling();
  const SchedAttr after = AfterYieldsOf(1000);
  EXPECT_EQ(after.slice_ns, kShortNs);
  EXPECT_EQ(after.policy, before.policy);
  EXPECT_EQ(after.nice, before.nice);
  EXPECT_EQ(Scheduling().slice_ns, before.slice_ns) << "of a thread that does not poll";
}

// A yield may take long on a busy machine, but not each of them.
TEST_F(SliceTest, AThreadThatIsNotKeptWaitingAsksForNothing) {
  const SchedAttr before = Scheduling();
  bool has_kept_its_own = false;
  for (int i = 0; i < 100 && !has_kept_its_own; ++i) {
    has_kept_its_own = AfterYieldsOf(0).slice_ns == before.slice_ns;
  }
  EXPECT_TRUE(has_kept_its_own);
}

TEST_F(SliceTest, TheNiceValueStays) {
  SchedAttr nicer = Scheduling();
  nicer.nice = 3;
  const SchedAttr after = AfterYieldsOf(1000, [&] { EXPECT_EQ(Set(nicer), 0); });
  EXPECT_EQ(after.nice, 3);
  EXPECT_EQ(after.slice_ns, kShortNs);
}

// The kernel has a run time of such a thread in the place of a slice.
TEST_F(SliceTest, AThreadWithADeadlineKeepsItsRunTime) {
  constexpr uint64_t kRunNs = 10'000'000, kPeriodNs = 20'000'000;
  const SchedAttr deadline{.policy = 6,  // SCHED_DEADLINE
                           .slice_ns = kRunNs,
                           .deadline_ns = kPeriodNs,
                           .period_ns = kPeriodNs};
  bool is_granted = false;
  const SchedAttr after = AfterYieldsOf(1000, [&] { is_granted = Set(deadline) == 0; });
  if (!is_granted) GTEST_SKIP() << "no right to SCHED_DEADLINE: it needs root";
  EXPECT_EQ(after.policy, deadline.policy);
  EXPECT_EQ(after.slice_ns, kRunNs);
}

}  // namespace
}  // namespace uroce::shim_test
