// SPDX-License-Identifier: Apache-2.0
// Writes completions to completion rings, and finds the queue pairs whose ring is full.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/record_retries.h"
#include "pipeline/datapath/worker/poller_wakes.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// One thread.
class CompletionPublisher {
 public:
  /// `overflows` is null when the daemon has one worker.
  CompletionPublisher(OverflowSink* overflows, const TurnTime& time)
      : overflows_(overflows), time_(time) {}

  /// Writes a CQE for each completion that the transport of `qp` has. False: a ring is in error, so
  /// `qp` must go to error as well.
  [[nodiscard]] bool PublishAll(QueuePair& qp);
  /// Makes visible to programs what was published since the last call.
  void FinishBursts() {
    if (!bursts_.empty()) FinishSomeBursts();
  }
  /// Makes NextToFail return the queue pairs that complete on `ring` at this moment.
  void FailUsers(CompletionRing& ring);
  /// Returns a queue pair that must go to error because its ring is in error; null: none.
  QueuePair* NextToFail();
  bool any_to_fail() const { return !failing_.empty(); }

  /// The retries of records (of queue pairs, rings and shared queues) that found no room.
  RecordRetries& retries() { return retries_; }
  const RecordRetries& retries() const { return retries_; }
  /// The threads to wake for what was published.
  PollerWakes& poller_wakes() { return poller_wakes_; }

  // ---- between turns ----
  /// Reserves room for `rings` rings, and for records of `sources` sources.
  void Reserve(size_t rings, size_t sources);
  void Remove(CompletionRing* ring);

 private:
  void FinishSomeBursts();
  [[nodiscard]] inline bool Publish(QueuePair& qp, const transport::Completion& completion);

  OverflowSink* const overflows_;
  const TurnTime& time_;
  RecordRetries retries_;
  PollerWakes poller_wakes_;
  std::vector<CompletionRing*> bursts_;
  std::vector<CompletionRing*> failing_;  // Each once.
};

}  // namespace uroce::datapath
