// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/run_delay.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace uroce::datapath {
namespace {

TEST(RunDelayTest, BeforeOpenThereIsNone) { EXPECT_EQ(RunDelay().Read(), Nanos(0)); }

// Ends when the kernel has counted a wait. Without one it hangs.
TEST(RunDelayTest, CountsTheWaitForACpuThatAnotherThreadHas) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "no schedstat";
  std::atomic<bool> done{false};
  std::thread waiting([&] {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    std::thread busy([&] {
      while (!done) continue;  // On the same CPU: the affinity is inherited.
    });
    RunDelay delay;
    delay.Open();
    const Nanos before = delay.Read();
    while (delay.Read() <= before) continue;
    done = true;
    busy.join();
  });
  waiting.join();
}

}  // namespace
}  // namespace uroce::datapath
