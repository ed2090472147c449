// SPDX-License-Identifier: Apache-2.0
// Records that wait for room in the socket of a program, or for the end of moderation.
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

/// Programs decide when there is room, and how many objects wait. So an object waits longer the
/// longer there is no room, and a pass looks at a bounded number of them. One thread.
class RecordRetries {
 public:
  static constexpr Nanos kLongest{64'000'000};
  static constexpr size_t kMaxLooks = 64;
  static constexpr int kMaxWrites = 16;
  static constexpr Nanos kBetweenPasses{50'000};

  /// Has the pending records of it tried again, from now on. Once until it is done.
  void Want(QueuePair& queue_pair, Nanos now);
  void Want(CompletionRing& ring, Nanos now);
  void Want(SharedReceiveQueue& queue, Nanos now);
  void Remove(const RecordSource& source);
  /// Room for as many sources.
  void Reserve(size_t count) { entries_.reserve(count); }
  /// When to make the next pass; kNever: nothing waits.
  Nanos next() const { return next_; }
  /// Tries those whose time has come, as far as a pass goes.
  void Pass(Nanos now);

 private:
  struct Entry {
    RecordSource source;
    Nanos at{0};
    Nanos wait{0};  ///< How long it waited before that.
  };
  /// True: nothing of it waits any more.
  static bool Try(Entry& entry, Nanos now);
  void Add(const RecordSource& source, Nanos now, Nanos wait);

  std::vector<Entry> entries_;
  size_t first_ = 0;  // Looked at first in the next pass.
  Nanos next_ = kNever;
};

}  // namespace uroce::datapath
