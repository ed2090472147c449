// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs-shim/yields.h"

#include <sched.h>

/// In place of libc's, to count; liburoce.so finds the program's first. No other thread gets the
/// CPU: how long a yield takes must not depend on what else the machine does.
extern "C" int sched_yield() noexcept {
  ++uroce::shim_test::g_yields;
  if (uroce::shim_test::g_others) uroce::shim_test::g_others();
  return 0;
}
