// SPDX-License-Identifier: Apache-2.0
// What work costs, however long its thread waited for a CPU.
#pragma once

#include <ctime>

#include "pipeline/base/types.h"

namespace uroce::nic {

/// The CPU time of the calling thread so far.
inline Nanos ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Nanos(time.tv_sec * 1'000'000'000 + time.tv_nsec);
}

}  // namespace uroce::nic
