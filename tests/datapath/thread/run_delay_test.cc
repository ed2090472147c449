// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/sleeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/os/busy_cpu.h"

namespace uroce::datapath {
namespace {

TEST(RunDelayTest, BeforeOpenThereIsNone) { EXPECT_EQ(RunDelay().Read(), Nanos(0)); }

// Ends when the kernel has counted a wait. Without one it hangs.
TEST(RunDelayTest, CountsTheWaitForACpuThatAnotherThreadHas) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/thread-self/schedstat (CONFIG_SCHED_INFO)";
  }
  const BesideABusyThread waiting([] {
    RunDelay delay;
    delay.Open();
    const Nanos before = delay.Read();
    while (delay.Read() <= before) continue;
  });
}

}  // namespace
}  // namespace uroce::datapath
