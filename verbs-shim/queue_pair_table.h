// SPDX-License-Identifier: Apache-2.0
// Finds the queue pair by the handle in a CQE. Pollers look it up without a lock.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

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
