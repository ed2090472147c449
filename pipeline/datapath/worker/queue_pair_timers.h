// SPDX-License-Identifier: Apache-2.0
// Keeps the time at which each queue pair must be looked after.
#pragma once

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/timer_wheel.h"

namespace uroce::datapath {

/// The deadlines of a worker's queue pairs. One thread.
class QueuePairTimers {
 public:
  /// Files the timer of `qp` for its transport's next deadline. A filed timer that has become too
  /// early stays where it is: the deadline is looked up again when it fires.
  void File(QueuePair& qp) { FileAt(qp, qp.core().NextDeadline()); }
  /// Makes the timer fire at `at`, unless it fires earlier.
  void FileAt(QueuePair& qp, Nanos at) {
    if (at < qp.links().timer.deadline) wheel_.File(qp.links().timer, at);
  }
  void Remove(QueuePair& qp) { wheel_.Remove(qp.links().timer); }
  /// Returns a queue pair whose timer has fired, or null. The caller files the timer anew.
  QueuePair* PopExpired(Nanos now) {
    TimerEntry* const entry = wheel_.PopExpired(now);
    return entry == nullptr ? nullptr : &QueuePair::OfTimer(*entry);
  }
  /// A time not after the earliest deadline; kNever: there is none.
  Nanos NextDeadline() const { return wheel_.NextDeadline(); }

 private:
  TimerWheel wheel_{Nanos(0)};
};

}  // namespace uroce::datapath
