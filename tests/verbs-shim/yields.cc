// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs-shim/yields.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/// In place of libc's, to count; liburoce.so finds the program's first.
extern "C" int sched_yield() noexcept {
  ++uroce::shim_test::g_yields;
  if (uroce::shim_test::g_others) uroce::shim_test::g_others();
  return static_cast<int>(syscall(SYS_sched_yield));
}
