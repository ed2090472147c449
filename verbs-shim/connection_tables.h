// SPDX-License-Identifier: Apache-2.0
// What a connection to the daemon finds its objects by: queue pairs by the handle in a CQE, objects
// by the number in an event, copied regions by their lkey, and the ids of the connection manager
// that get an event when the daemon ends.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

// ---- The ids of rdma_cm ----
// When the daemon is gone, the shim makes their last events itself.

/// The ids of one connection. Any thread, without locks: a program uses an id on one thread at a
/// time.
class CmIds {
 public:
  /// Ids from this number on are not recorded. The daemon gives lower ids while it has any.
  static constexpr uint32_t kMost = 1u << 16;

  /// Records that the id belongs to `file`, and that its events carry `uid`, which is not 0.
  void Set(uint32_t id, uint32_t file, uint64_t uid);
  /// Records that the id belongs to another file from now on.
  void Move(uint32_t id, uint32_t file);
  void Forget(uint32_t id);
  /// Forgets one id of `file` and yields it. False: the file has no id.
  bool TakeOne(uint32_t file, uint32_t* id, uint64_t* uid);

 private:
  static constexpr uint32_t kChunkIds = 256;
  struct Id {
    uint64_t uid;  ///< 0: the id does not exist.
    uint32_t file;
  };
  struct Chunk {
    Id ids[kChunkIds];
  };

  Id* Find(uint32_t id) const {
    Chunk* chunk = id < kMost ? rings::LoadAcquire(chunks_[id / kChunkIds]) : nullptr;
    return chunk == nullptr ? nullptr : &chunk->ids[id % kChunkIds];
  }
  bool MakeChunk(uint32_t index);

  Chunk* chunks_[kMost / kChunkIds] = {};  ///< Allocated when needed, never freed.
};

// ---- The objects that events can concern ----
// Each has a number, which the daemon is told and repeats in the records of events. A record whose
// number names no object has no effect.

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

// ---- Regions that the daemon does not map, by their lkey ----

/// Contiguous bytes that SGEs name by an lkey.
struct CopiedRegion {
  uint32_t lkey;
  uint32_t pd;
  uint64_t iova;  ///< Of `start` in SGEs.
  uint64_t start;
  uint64_t length;
};

/// The regions of which the daemon maps no part, and that posts may read. One that is not here is
/// only slower: a region may push out another one. Any thread; a look takes no lock.
class CopiedRegions {
 public:
  /// Regions are recorded from now on.
  void Begin() { rings::StoreRelaxed(is_used_, 1u); }
  void Add(const CopiedRegion& region);
  void Remove(uint32_t lkey);
  /// Sets where the `length` bytes at `addr` lie in the program. False: they are no part of a
  /// region of `pd` that is here.
  bool Find(uint32_t lkey, uint32_t pd, uint64_t addr, uint64_t length, uint64_t* start) const;
  bool empty() const { return rings::LoadRelaxed(has_any_) == 0; }

 private:
  static constexpr uint32_t kPlaces = 1024;
  struct Place {
    uint32_t sequence;  ///< Odd while the region changes.
    CopiedRegion region;
  };

  static uint32_t PlaceOf(uint32_t lkey) { return lkey * 0x9E3779B1u >> 22; }
  static void Write(Place& place, const CopiedRegion& region);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  ///< Of those who write.
  uint32_t is_used_ = 0;
  uint32_t has_any_ = 0;  ///< Whether there was ever one.
  Place places_[kPlaces] = {};
};

// ---- Queue pairs by the handle in a CQE ----

struct QueuePair;

/// The queue pairs of a connection: a radix tree over the 32 bits of the handle, whose nodes are
/// never freed, and a list for ForEach. A mutex serializes Add and Remove; Find may run at the same
/// time. Before a queue pair is freed, its completions are dropped from the CQs: see
/// ForgetCompletions.
class QueuePairTable {
 public:
  /// False: no memory.
  bool Add(uint32_t handle, QueuePair* queue_pair);
  void Remove(uint32_t handle, QueuePair* queue_pair);

  /// The queue pair of `handle`, or null. Any thread.
  QueuePair* Find(uint32_t handle) const {
    const Middle* middle = rings::LoadAcquire(roots_[handle >> 20]);
    if (middle == nullptr) return nullptr;
    const Leaf* leaf = rings::LoadAcquire(middle->leaves[(handle >> 10) & 1023]);
    return leaf == nullptr ? nullptr : rings::LoadAcquire(leaf->entries[handle & 1023]);
  }

  /// Calls `visit(QueuePair*)` for each queue pair. None is added or removed meanwhile.
  template <typename Visit>
  void ForEach(Visit&& visit) {
    const MutexLock lock(mutex_);
    for (QueuePair* queue_pair = first_; queue_pair != nullptr; queue_pair = Next(queue_pair)) {
      visit(queue_pair);
    }
  }

 private:
  struct Leaf {
    QueuePair* entries[1024];
  };
  struct Middle {
    Leaf* leaves[1024];
  };
  QueuePair** Entry(uint32_t handle);
  static QueuePair* Next(QueuePair* queue_pair);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  QueuePair* first_ = nullptr;
  Middle* roots_[4096] = {};
};

}  // namespace uroce::shim
