// SPDX-License-Identifier: Apache-2.0
// When which queue pair wants to be looked after.
#pragma once

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/timer_wheel.h"

namespace uroce::datapath {

/// The deadlines of a worker's queue pairs. One thread.
class QueuePairTimers {
 public:
  /// Files the timer of `qp` for what its transport waits for next. A filed one that has become too
  /// early stays where it is: it looks again when it fires.
  void File(QueuePair& qp) { FileAt(qp, qp.core().NextDeadline()); }
  /// Has it fire at `at`, if it does not before.
  void FileAt(QueuePair& qp, Nanos at) {
    if (at < qp.links().timer.deadline) wheel_.File(qp.links().timer, at);
  }
  void Remove(QueuePair& qp) { wheel_.Remove(qp.links().timer); }
  /// One whose timer has fired, null when there is none. It is to be filed anew.
  QueuePair* PopExpired(Nanos now) {
    TimerEntry* const entry = wheel_.PopExpired(now);
    return entry == nullptr ? nullptr : &QueuePair::OfTimer(*entry);
  }
  /// Not after the earliest deadline; kNever: there is none.
  Nanos NextDeadline() const { return wheel_.NextDeadline(); }

 private:
  TimerWheel wheel_{Nanos(0)};
};

}  // namespace uroce::datapath
