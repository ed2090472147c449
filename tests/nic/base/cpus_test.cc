// SPDX-License-Identifier: Apache-2.0
#include "nic/base/cpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/os/busy_cpu.h"

namespace uroce::nic {
namespace {

// Ends when the kernel has counted all. Without one of them it hangs.
TEST(ThreadScheduleTest, CountsWhatAThreadOnTheSameCpuCosts) {
  if (access("/proc/self/task", R_OK) != 0 || access("/proc/self/schedstat", R_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/self/schedstat (CONFIG_SCHED_INFO)";
  }
  std::atomic<bool> done{false};
  std::atomic<pid_t> number{0};
  const BesideABusyThread watched([&] {
    number = gettid();
    while (!done) continue;
  });
  while (number == 0) std::this_thread::yield();
  const ThreadSchedule before = ReadThreadSchedule(number);
  ThreadSchedule now;
  do {
    now = ReadThreadSchedule(number);
  } while (now.running_ns <= before.running_ns || now.waiting_ns <= before.waiting_ns ||
           now.involuntary_switches <= before.involuntary_switches);
  done = true;
}

TEST(ThreadScheduleTest, OfNoThreadNothingIsTold) {
  const ThreadSchedule schedule = ReadThreadSchedule(-1);
  EXPECT_EQ(schedule.running_ns, 0u);
  EXPECT_EQ(schedule.waiting_ns, 0u);
  EXPECT_EQ(schedule.involuntary_switches, 0u);
}

}  // namespace
}  // namespace uroce::nic
