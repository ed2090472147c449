// SPDX-License-Identifier: Apache-2.0
// The time slices of threads that poll on a core that others use too.
#pragma once

#include <stdint.h>

namespace uroce::shim {

/// How the kernel schedules a thread: what sched_setattr(2) takes, for which libc has no header.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;  ///< sched_runtime. 0: the kernel has slices of one size.
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

/// Asks the kernel for slices of 100 us for this thread (Linux 6.12; older ones have no such wish):
/// it gets its core back sooner after a yield or a sleep. Its share of the core stays the same. A
/// thread with a policy other than SCHED_OTHER and SCHED_BATCH, or with shorter slices, keeps what
/// it has.
void AskForShortSlices();

}  // namespace uroce::shim
