// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/stall_watch.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace uroce::datapath {
namespace {

/// How often the calling thread has given its CPU up: voluntary context switches.
int64_t Switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

void StallWatch::AfterSleep() { switches_ = Switches(); }

bool StallWatch::HasWaited() {
  const int64_t before = std::exchange(switches_, Switches());
  return switches_ != before;
}

void StallWatch::OnLong(Nanos took, Nanos now) {
  if (!HasWaited()) return;
  measures_ = true;
  measures_until_ = std::max(measures_until_, now + took * MemoryRest::kTimesAsLong);
}

void StallWatch::Begin() {
  if (turn_ != time_.number()) {
    turn_ = time_.number();
    switches_ = Switches();
  }
  begin_ = time_.ReadTicks();
}

void StallWatch::End(MemoryRest* rest) {
  const uint64_t took = time_.ReadTicks() - begin_;
  if (!IsLong(took)) [[likely]]
    return;
  if (HasWaited() && rest != nullptr) rest->Begin(time_.ReadClock(), time_.clock().SpanOf(took));
}

}  // namespace uroce::datapath
