// SPDX-License-Identifier: Apache-2.0
// The objects that events can concern. Each has a number, which the daemon is told and repeats in
// the records of events. A record whose number names no object has no effect.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "verbs-shim/support.h"

namespace uroce::shim {

enum class EventKind : uint8_t { kCompletion, kCq, kQueuePair, kSharedReceiveQueue };

/// Events of one object: a member of each CQ, queue pair and SRQ. Guarded by the table's lock.
struct EventSource {
  uint64_t number;  ///< 0: not in the table.
  EventKind kind;   ///< kCq, kQueuePair or kSharedReceiveQueue.
  void* object;
  uint32_t completion_events;  ///< How many were given to the program so far.
  uint32_t async_events;
  EventSource* next;  ///< The next one in its chain of the table.
};

/// The sources of a connection. Any thread.
class EventTable {
 public:
  enum class Found : uint8_t {
    kFound,
    kEnded,   ///< The object with this number has ended.
    kUnknown  ///< No object ever had this number: an error of the daemon.
  };

  /// Gives `source` a number that no other source ever gets.
  void Add(EventSource& source, EventKind kind, void* object);
  /// No event of `source` is given to the program afterwards. A second call does nothing.
  void Remove(EventSource& source);
  /// Finds the object of an event of `kind`, and counts the event as given to the program.
  Found Take(uint64_t number, EventKind kind, void** object);
  /// Whether the object with this number has ended. False also when no object ever had it.
  bool HasEnded(uint64_t number);

 private:
  static constexpr uint32_t kChains = 1024;

  /// Null: no object has the number. The caller holds the lock.
  EventSource* Find(uint64_t number) const;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  uint64_t last_number_ = 0;
  EventSource* chains_[kChains] = {};
};

}  // namespace uroce::shim
