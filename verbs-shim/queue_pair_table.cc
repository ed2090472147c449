// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/queue_pair_table.h"

#include "verbs-shim/objects.h"

namespace uroce::shim {

QueuePair** QueuePairTable::Entry(uint32_t handle) {
  Middle*& middle = roots_[handle >> 20];
  if (middle == nullptr) {
    auto* made = Make<Middle>();
    if (made == nullptr) return nullptr;
    rings::StoreRelease(middle, made);
  }
  Leaf*& leaf = middle->leaves[(handle >> 10) & 1023];
  if (leaf == nullptr) {
    auto* made = Make<Leaf>();
    if (made == nullptr) return nullptr;
    rings::StoreRelease(leaf, made);
  }
  return &leaf->entries[handle & 1023];
}

QueuePair* QueuePairTable::Next(QueuePair* queue_pair) { return queue_pair->next; }

bool QueuePairTable::Add(uint32_t handle, QueuePair* queue_pair) {
  const MutexLock lock(mutex_);
  QueuePair** entry = Entry(handle);
  if (entry == nullptr) return false;
  queue_pair->next = first_;
  first_ = queue_pair;
  rings::StoreRelease(*entry, queue_pair);
  return true;
}

void QueuePairTable::Remove(uint32_t handle, QueuePair* queue_pair) {
  const MutexLock lock(mutex_);
  QueuePair** entry = Entry(handle);
  if (entry != nullptr && *entry == queue_pair) {
    rings::StoreRelease(*entry, static_cast<QueuePair*>(nullptr));
  }
  for (QueuePair** link = &first_; *link != nullptr; link = &(*link)->next) {
    if (*link != queue_pair) continue;
    *link = queue_pair->next;
    return;
  }
}

}  // namespace uroce::shim
