// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/wake_pace.h"

#include <ctime>

namespace uroce::datapath {
namespace {

Nanos TimeOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

}  // namespace

Nanos WakePace::WallTime() { return TimeOf(CLOCK_MONOTONIC); }
Nanos WakePace::OwnTime() { return TimeOf(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace uroce::datapath
