// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "pipeline/shm/rings/completion_queue.h"
#include "tests/verbs-shim/shim_fixture.h"
#include "tests/verbs-shim/yields.h"
#include "verbs-shim/poller.h"

namespace uroce::shim_test {
namespace {

// ---- The waits of a thread ----
// A thread that polls empty queues yields, or sleeps where others want its core.

class PollerTest : public ShimTest {
 protected:
  uroce_line32& word() { return reinterpret_cast<uroce_arena_header*>(daemon_->arena())->pollers; }
  uint32_t Bits() { return rings::LoadRelaxed(word().value); }

  /// Runs `body` in a thread that has been kept from its core.
  static void InContendedThread(ibv_cq* cq, const std::function<void()>& body) {
    std::thread([&] {
      g_others = [] { usleep(1000); };
      ibv_wc wc;
      for (int i = 0; i < 16; ++i) EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
      g_others = nullptr;
      g_yields = 0;
      body();
    }).join();
  }
  /// Runs `body` in contended threads until it says that the thread slept until a worker woke it: a
  /// busy machine may keep the worker from its CPU for longer than any sleep lasts.
  static void UntilASleepIsEnded(ibv_cq* cq, const std::function<bool()>& body) {
    bool is_ended = false;
    for (int tries = 0; tries < 50 && !is_ended; ++tries) {
      InContendedThread(cq, [&] { is_ended = body(); });
    }
    EXPECT_TRUE(is_ended) << "it polled on instead of sleeping";
  }
  /// How often the calling thread has slept.
  static long Sleeps() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  }
  /// Completes a request of `qp`, and wakes who sleeps for it, as a worker does.
  void CompleteAndWake(uint32_t index, uint64_t wr_id) {
    Complete(index, wr_id);
    rings::FullFence();
    if (!rings::HasPollers(word(), rings::PollerBit(cq_->handle))) return;
    if (!rings::TakePollers(word(), rings::PollerBit(cq_->handle))) return;
    syscall(SYS_futex, &word().value, FUTEX_WAKE_BITSET, INT32_MAX, nullptr, nullptr,
            rings::PollerBit(cq_->handle));
  }
};

// A busy machine may take the core away in the time of a yield, but not in each of these threads.
TEST_F(PollerTest, AThreadAloneOnItsCoreNeverSleeps) {
  bool has_announced = true;
  for (int tries = 0; tries < 50 && has_announced; ++tries) {
    word().value = 0;
    std::thread([this] {
      ibv_wc wc;
      for (int i = 0; i < 300; ++i) EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    }).join();
    has_announced = Bits() != 0;
  }
  EXPECT_FALSE(has_announced);
}

TEST_F(PollerTest, WhereOthersWantTheCoreItSleepsUntilACompletion) {
  uint32_t index = 0;
  UntilASleepIsEnded(cq_, [&] {
    EXPECT_EQ(Post(Write(index, nullptr)), 0);
    ibv_wc wc = {};
    // The first of these polls announces the sleep, the second sleeps.
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    EXPECT_EQ(Bits(), rings::PollerBit(cq_->handle));
    std::thread worker([this, index] {
      usleep(500);
      CompleteAndWake(index, index);
    });
    const long before = Sleeps();
    int polls = 1;
    while (ibv_poll_cq(cq_, 1, &wc) == 0) ++polls;
    const bool has_slept = Sleeps() != before;
    worker.join();
    EXPECT_EQ(wc.wr_id, index++);
    return polls <= 3 && has_slept && g_yields == 0;
  });
  EXPECT_EQ(Bits(), 0u);
}

TEST_F(PollerTest, WhatCompletesAfterTheAnnouncementIsFoundWithoutASleep) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  InContendedThread(cq_, [this] {
    ibv_wc wc = {};
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    CompleteAndWake(0, 1);
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  });
}

// A sleep that nothing ends lasts as long as the thread wants, or longer on a busy machine. So a
// sleep that is shorter than the longest is a short one.
TEST_F(PollerTest, SleepsAreShortAfterSomeThatNoCompletionEnded) {
  constexpr std::chrono::nanoseconds kLongest{shim::Poller::kLongestSleepNs};
  std::vector<std::chrono::nanoseconds> sleeps;
  for (int tries = 0; tries < 20; ++tries) {
    sleeps.clear();
    InContendedThread(cq_, [&] {
      g_others = [] { usleep(100); };  // Each yield finds that others want the core.
      ibv_wc wc = {};
      for (int i = 0; i < 500 && sleeps.size() < 12; ++i) {
        const int yields = g_yields;
        const long before = Sleeps();
        const auto began = std::chrono::steady_clock::now();
        EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
        if (g_yields != yields || Sleeps() == before) continue;
        sleeps.push_back(std::chrono::steady_clock::now() - began);
      }
      g_others = nullptr;
    });
    ASSERT_EQ(sleeps.size(), 12u);
    const auto first_short = std::ranges::find_if(sleeps, [=](auto it) { return it < kLongest; });
    if (first_short == sleeps.begin() + shim::Poller::kMostVainSleeps) return;
  }
  ADD_FAILURE() << "the fifth sleep was never the first short one";
}

// A completion may have come to one of the queues while the thread looked at another one.
TEST_F(PollerTest, AThreadOfTwoQueuesPollsBothAfterTheAnnouncementAndSleepsForBoth) {
  ibv_cq* const other = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(other, nullptr);
  uint32_t index = 0;
  UntilASleepIsEnded(cq_, [&] {
    EXPECT_EQ(Post(Write(index, nullptr)), 0);
    ibv_wc wc = {};
    const auto poll_both = [&] {
      const int found = ibv_poll_cq(cq_, 1, &wc);
      return found + ibv_poll_cq(other, 1, &wc);
    };
    const uint32_t both = rings::PollerBit(cq_->handle) | rings::PollerBit(other->handle);
    for (int i = 0; i < 64 && Bits() != both; ++i) EXPECT_EQ(poll_both(), 0);
    EXPECT_EQ(Bits(), both);
    std::thread worker([this, index] {
      usleep(500);
      CompleteAndWake(index, index);
    });
    const long before = Sleeps();
    int rounds = 0;
    while (poll_both() == 0) ++rounds;
    const bool has_slept = Sleeps() != before;
    worker.join();
    EXPECT_EQ(wc.wr_id, index++);
    return rounds <= 5 && has_slept;
  });
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(PollerTest, ItSleepsOnlyWhenItHasPolledAllQueuesSinceTheAnnouncement) {
  ibv_cq* const other = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(other, nullptr);
  InContendedThread(cq_, [&] {
    ibv_wc wc = {};
    const uint32_t both = rings::PollerBit(cq_->handle) | rings::PollerBit(other->handle);
    ibv_cq* last = other;
    for (int i = 0; i < 64 && Bits() != both; ++i) {
      last = last == cq_ ? other : cq_;
      EXPECT_EQ(ibv_poll_cq(last, 1, &wc), 0);
    }
    ASSERT_EQ(Bits(), both);
    // A sleep would end at once, since the word has another value, and be announced again.
    word().value = 0;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ibv_poll_cq(last, 1, &wc), 0);
    EXPECT_EQ(Bits(), 0u);
  });
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(PollerTest, AQueueThatIsPolledAfterTheAnnouncementIsAnnouncedToo) {
  ibv_cq* const other = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(other, nullptr);
  InContendedThread(cq_, [&] {
    ibv_wc wc = {};
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    EXPECT_EQ(Bits(), rings::PollerBit(cq_->handle));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(ibv_poll_cq(other, 1, &wc), 0);
    EXPECT_EQ(Bits(), rings::PollerBit(cq_->handle) | rings::PollerBit(other->handle));
  });
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(PollerTest, AThreadThatGetsCompletionsDoesNotSleepForAnIdleQueue) {
  ibv_cq* const other = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  InContendedThread(other, [&] {
    Complete(0, 1);
    ibv_wc wc = {};
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
    EXPECT_EQ(ibv_poll_cq(other, 1, &wc), 0);
    EXPECT_EQ(Bits(), 0u);
  });
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(PollerTest, AThreadThatSleepsLearnsThatTheDaemonHasEnded) {
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  InContendedThread(cq_, [this] {
    daemon_->Stop();
    ibv_wc wc = {};
    int found = 0;
    for (int i = 0; i < 100'000 && found == 0; ++i) found = ibv_poll_cq(cq_, 1, &wc);
    EXPECT_EQ(found, 1);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  });
}

TEST_F(PollerTest, AThreadThatCeasesToPollAQueueStillWaits) {
  ibv_cq* const other = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(other, nullptr);
  InContendedThread(cq_, [&] {
    ibv_wc wc = {};
    for (int i = 0; i < 64 && (Bits() & rings::PollerBit(other->handle)) == 0; ++i) {
      EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
      EXPECT_EQ(ibv_poll_cq(other, 1, &wc), 0);
    }
    word().value = 0;
    for (int i = 0; i < 200 && g_yields == 0; ++i) EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    EXPECT_NE(g_yields, 0);
  });
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(PollerTest, AThreadOfManyQueuesYields) {
  std::vector<ibv_cq*> queues;
  for (int i = 0; i < 8; ++i) queues.push_back(ibv_create_cq(context_, 4, nullptr, nullptr, 0));
  InContendedThread(cq_, [&] {
    ibv_wc wc = {};
    for (int i = 0; i < 20; ++i) {
      for (ibv_cq* queue : queues) EXPECT_EQ(ibv_poll_cq(queue, 1, &wc), 0);
    }
    EXPECT_GE(g_yields, 8);
  });
  EXPECT_EQ(Bits() & ~rings::PollerBit(cq_->handle), 0u);
  for (ibv_cq* queue : queues) EXPECT_EQ(ibv_destroy_cq(queue), 0);
}

// ---- Time slices ----

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
  /// Yields in its own thread, which others keep from the core for so long; returns how the kernel
  /// schedules the thread then. `prepare` is run in the thread before.
  SchedAttr AfterYieldsOf(useconds_t us, const std::function<void()>& prepare = {}) {
    // A sleep of no time, too, gives the core to another process.
    if (us != 0) g_others = [us] { usleep(us); };
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
