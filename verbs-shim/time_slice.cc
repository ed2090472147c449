// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uroce::shim {
namespace {

constexpr uint64_t kShortSliceNs = 100'000;  ///< The shortest that Linux grants.

}  // namespace

void AskForShortSlices() {
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  if (attr.policy != SCHED_OTHER && attr.policy != SCHED_BATCH) return;
  if (attr.slice_ns <= kShortSliceNs) return;
  attr.slice_ns = kShortSliceNs;
  syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace uroce::shim
