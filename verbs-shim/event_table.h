// SPDX-License-Identifier: Apache-2.0
// What events can be of, by numbers that the daemon is given for them: it repeats them in the
// records of events, and a record that names nothing touches nothing.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "verbs-shim/support.h"

namespace uroce::shim {

enum class EventKind : uint8_t { kCompletion, kCq, kQueuePair, kSharedReceiveQueue };

/// A part of each CQ, queue pair and shared receive queue: its events. Under the table's lock.
struct EventSource {
  uint64_t number;  ///< 0: not in the table.
  EventKind kind;   ///< kCq, kQueuePair or kSharedReceiveQueue.
  void* object;
  uint32_t completion_events;  ///< Given to the program so far.
  uint32_t async_events;
  EventSource* next;  ///< In its chain of the table.
};

/// The sources of a connection. Any thread.
class EventTable {
 public:
  enum class Found : uint8_t {
    kFound,
    kEnded,   ///< What had this number is gone.
    kUnknown  ///< Nothing ever had it: the daemon is wrong.
  };

  /// Gives `source` a number, which is never given again.
  void Add(EventSource& source, EventKind kind, void* object);
  /// No event of it is given out afterwards. Again: does nothing.
  void Remove(EventSource& source);
  /// Finds what an event of `kind` is of, and counts it as given to the program.
  Found Take(uint64_t number, EventKind kind, void** object);
  /// Whether what had this number is gone. False also when nothing ever had it.
  bool HasEnded(uint64_t number);

 private:
  static constexpr uint32_t kChains = 1024;

  /// Null: nothing has it. Under the lock.
  EventSource* Find(uint64_t number) const;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  uint64_t last_number_ = 0;
  EventSource* chains_[kChains] = {};
};

}  // namespace uroce::shim
