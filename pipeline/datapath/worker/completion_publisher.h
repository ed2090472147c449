// SPDX-License-Identifier: Apache-2.0
// Publishes completions and their records, wakes who sleeps for them, and tries records again whose
// socket was full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"

namespace uroce::datapath {

/// An object that has records to write. One of the pointers is set.
struct RecordSource {
  QueuePair* queue_pair = nullptr;
  CompletionRing* ring = nullptr;
  SharedReceiveQueue* shared_queue = nullptr;

  bool operator==(const RecordSource&) const = default;
};

/// Retries records that wait for room in the socket of a program, or for the end of moderation.
/// Programs decide when there is room, and how many objects wait. So an object's wait grows while
/// there is no room, and a pass looks at a bounded number of objects. One thread.
class RecordRetries {
 public:
  static constexpr Nanos kLongest{64'000'000};
  static constexpr size_t kMaxLooks = 64;
  static constexpr int kMaxWrites = 16;
  static constexpr Nanos kBetweenPasses{50'000};

  /// Has the pending records of an object tried again from now on, until none is left. Add it once.
  void Want(QueuePair& queue_pair, Nanos now);
  void Want(CompletionRing& ring, Nanos now);
  void Want(SharedReceiveQueue& queue, Nanos now);
  void Remove(const RecordSource& source);
  /// Reserves room for as many sources.
  void Reserve(size_t count) { entries_.reserve(count); }
  /// When to make the next pass; kNever: nothing waits.
  Nanos next() const { return next_; }
  /// Tries the objects whose time has come, up to the bound of a pass.
  void Pass(Nanos now);

 private:
  struct Entry {
    RecordSource source;
    Nanos at{0};
    Nanos wait{0};  ///< How long the object waited before that.
  };
  /// True: no record of the object waits any more.
  static bool Try(Entry& entry, Nanos now);
  void Add(const RecordSource& source, Nanos now, Nanos wait);

  std::vector<Entry> entries_;
  size_t first_ = 0;  // Index that the next pass looks at first.
  Nanos next_ = kNever;
};

/// Chooses when to wake threads that sleep until their completion queues have CQEs. Such threads
/// sleep because they share a core, maybe this worker's own. A thread that is woken
/// for the first of many CQEs takes the core before there are more, and sleeps again: measured
/// beside one busy process, 64 KB WRITEs, 25,000 wake-ups a second and 57 Gb/s, against 4,000
/// and 87. So they are woken after a turn that found no work, or kLongestDelay after the first CQE.
/// One thread.
class PollerWakes {
 public:
  static constexpr Nanos kLongestDelay{200'000};

  /// The threads that poll the queue of `ring` are due.
  void Add(CompletionRing& ring, Nanos now) {
    if (ring.is_waking()) return;
    if (rings_.empty()) since_ = now;
    ring.set_waking(true);
    rings_.push_back(&ring);
  }
  /// Called after each turn.
  void AfterTurn(bool busy, Nanos now) {
    if (!rings_.empty() && (!busy || now - since_ >= kLongestDelay)) WakeAll();
  }

  // ---- between turns ----
  /// Reserves room for as many rings.
  void Reserve(size_t rings) { rings_.reserve(rings); }
  void Remove(CompletionRing* ring);

 private:
  void WakeAll();

  std::vector<CompletionRing*> rings_;  // Each once.
  Nanos since_{0};                      // When the first of them was added.
};

/// Writes completions to completion rings, and finds the queue pairs whose ring is full. One
/// thread.
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
