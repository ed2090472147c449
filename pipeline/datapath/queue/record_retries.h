// SPDX-License-Identifier: Apache-2.0
// Retries records that wait for room in the socket of a program, or for the end of moderation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::datapath {

class CompletionRing;
class QueuePair;
class SharedReceiveQueue;

/// An object that has records to write. One of the pointers is set.
struct RecordSource {
  QueuePair* queue_pair = nullptr;
  CompletionRing* ring = nullptr;
  SharedReceiveQueue* shared_queue = nullptr;

  bool operator==(const RecordSource&) const = default;
};

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

}  // namespace uroce::datapath
