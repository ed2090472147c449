// SPDX-License-Identifier: Apache-2.0
// EventLoop: the lengths of its turns. BackgroundTasks: what they hold ends with them, even if
// callers are left.
#include "nic/base/event_loop.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "pipeline/os/clock.h"
#include "tests/os/busy_cpu.h"

namespace uroce::nic {
namespace {

/// Waits up to ten seconds for `condition`.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 10000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

uint64_t CountOf(const TurnHistogram& turns) {
  HistogramSums sums;
  turns.AddTo(sums);
  uint64_t count = 0;
  for (const uint64_t of_bucket : sums.counts) count += of_bucket;
  return count;
}

TEST(EventLoopTest, TurnsInWhichSomethingCameHaveALength) {
  static constexpr uint64_t kWorkNs = 2'000'000;
  EventLoop loop;
  loop.After(Nanos(0), [] { std::this_thread::sleep_for(std::chrono::nanoseconds(kWorkNs)); });
  loop.RunOnce(0);
  const uint64_t longest_ns = loop.longest_turn_ns();
  EXPECT_GE(longest_ns, kWorkNs);
  EXPECT_EQ(CountOf(loop.turn_ns()), 1u);
  loop.After(Nanos(0), [] {});
  loop.RunOnce(0);
  EXPECT_EQ(CountOf(loop.turn_ns()), 2u);
  EXPECT_GE(loop.longest_turn_ns(), longest_ns) << "the longest of all";
}

// Ends when the kernel has counted a wait of a millisecond. Without one it hangs.
TEST(EventLoopTest, ALongTurnHasNoWaitsForACpuInIt) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/thread-self/schedstat (CONFIG_SCHED_INFO)";
  }
  constexpr Nanos kWait{1'000'000};
  Nanos waited{0};
  Nanos took{0};
  Nanos on_cpu{0};
  uint64_t counted_ns = 0;
  {
    const BesideABusyThread beside([&] {
      EventLoop loop;
      loop.After(Nanos(0), [&] {
        RunDelay delay;
        delay.Open();
        const Nanos before = delay.Read();
        while (waited < kWait) waited = delay.Read() - before;
      });
      const Nanos begin = loop.Now();
      const Nanos cpu_before = ThreadCpuTime();
      loop.RunOnce(0);
      on_cpu = ThreadCpuTime() - cpu_before;
      took = loop.Now() - begin;
      counted_ns = loop.longest_turn_ns();
    });
  }
  EXPECT_LE(counted_ns, static_cast<uint64_t>((took - waited).count()));
  EXPECT_LE(counted_ns, static_cast<uint64_t>(on_cpu.count()));
}

// A wait is no work, however long it is.
TEST(EventLoopTest, TurnsWithoutAnEventAreNotMeasured) {
  EventLoop loop;
  loop.After(Nanos(int64_t{3'600} * 1'000'000'000), [] {});
  loop.RunOnce(1);
  EXPECT_EQ(loop.turn(), 1u);
  EXPECT_EQ(CountOf(loop.turn_ns()), 0u);
  EXPECT_EQ(loop.longest_turn_ns(), 0u);
}

TEST(BackgroundTasks, WorkIsDoneElsewhereAndItsOutcomeIsToldHere) {
  EventLoop loop;
  BackgroundTasks background_tasks(loop);
  std::thread::id worked_on, told_on;
  background_tasks.Start([&] { worked_on = std::this_thread::get_id(); },
                         [&] {
                           told_on = std::this_thread::get_id();
                           loop.Stop();
                         });
  loop.Run();
  EXPECT_EQ(told_on, std::this_thread::get_id());
  EXPECT_NE(worked_on, told_on);
}

TEST(BackgroundTasks, ACancelledOneTellsNothing) {
  EventLoop loop;
  BackgroundTasks background_tasks(loop);
  bool told = false;
  const auto cancelled = background_tasks.Start([] {}, [&] { told = true; });
  background_tasks.Cancel(cancelled);
  background_tasks.Start([] {}, [&] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(told);
}

/// While it lives the system has no room for another thread's stack.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 47);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(BackgroundTasks, WhereNoThreadIsToBeHadTheyWaitForOne) {
  EventLoop loop;
  BackgroundTasks background_tasks(loop);
  int done = 0;
  std::atomic<int> worked{0};
  {
    const NoMoreThreads none;
    const auto tell = [&] {
      if (++done == 2) loop.Stop();
    };
    background_tasks.Start([&] { ++worked; }, tell);
    background_tasks.Start([&] { ++worked; }, tell);
    loop.RunOnce(50);  // It is tried again, in vain.
    EXPECT_EQ(worked.load(), 0);
  }
  loop.Run();
  EXPECT_EQ(worked.load(), 2);
  EXPECT_EQ(done, 2);
}

TEST(BackgroundTasks, OneThatWaitsForAThreadAtTheEndIsDoneWithoutIt) {
  EventLoop loop;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  {
    BackgroundTasks background_tasks(loop);
    const NoMoreThreads none;
    background_tasks.Start([held] {}, [held] {});
    held.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(Eventually([&] { return watch.expired(); }));
}

TEST(BackgroundTasks, ThoseOnOneThreadAreDoneOneAfterTheOther) {
  EventLoop loop;
  BackgroundTasks background_tasks(loop);
  const auto thread = std::make_shared<SideThread>();
  std::promise<void> go;
  std::atomic<bool> worked = false;
  background_tasks.Start([wait = go.get_future().share()] { wait.wait(); }, nullptr, thread);
  background_tasks.Start([&] { worked = true; }, [&] { loop.Stop(); }, thread);
  loop.RunOnce(20);
  EXPECT_FALSE(worked.load());
  go.set_value();
  loop.Run();
  EXPECT_TRUE(worked.load());
}

TEST(BackgroundTasks, OneUnderWayAtTheEndFreesWhatItHoldsWhenItFinishes) {
  EventLoop loop;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  std::promise<void> go;
  {
    BackgroundTasks background_tasks(loop);
    background_tasks.Start([held, wait = go.get_future().share()] { wait.wait(); }, [held] {});
    held.reset();
  }
  EXPECT_FALSE(watch.expired());
  go.set_value();
  EXPECT_TRUE(Eventually([&] { return watch.expired(); }));
}

TEST(BackgroundTasks, OneWhoseOutcomeIsNotTakenFreesWhatItHoldsAtTheEnd) {
  EventLoop loop;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  {
    BackgroundTasks background_tasks(loop);
    std::atomic<bool> worked = false;
    background_tasks.Start([held, &worked] { worked = true; }, [held] {});
    held.reset();
    ASSERT_TRUE(Eventually([&] { return worked.load(); }));
  }
  EXPECT_TRUE(Eventually([&] { return watch.expired(); }));
}

}  // namespace
}  // namespace uroce::nic
