// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace uroce::shim {
namespace {

constexpr int64_t kSlowYieldNs = 500'000;
constexpr uint64_t kShortSliceNs = 100'000;  ///< The shortest that Linux grants.

thread_local bool t_has_asked = false;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void AskForShortSlices() {
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  if (attr.policy != SCHED_OTHER && attr.policy != SCHED_BATCH) return;
  if (attr.slice_ns <= kShortSliceNs) return;
  attr.slice_ns = kShortSliceNs;
  syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

void YieldCore() {
  if (t_has_asked) {
    sched_yield();
    return;
  }
  const int64_t before = NowNs();
  sched_yield();
  if (NowNs() - before < kSlowYieldNs) return;
  t_has_asked = true;
  AskForShortSlices();
}

}  // namespace uroce::shim
