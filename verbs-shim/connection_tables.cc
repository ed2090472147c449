// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/connection_tables.h"

#include "verbs-shim/objects.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

bool CmIds::MakeChunk(uint32_t index) {
  auto* fresh = Make<Chunk>();
  if (fresh == nullptr) return false;
  Chunk* expected = nullptr;
  if (!__atomic_compare_exchange_n(&chunks_[index], &expected, fresh, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    Free(fresh);
  }
  return true;
}

void CmIds::Set(uint32_t id, uint32_t file, uint64_t uid) {
  if (id >= kMost) return;
  if (Find(id) == nullptr && !MakeChunk(id / kChunkIds)) return;
  Id& entry = *Find(id);
  rings::StoreRelaxed(entry.file, file);
  rings::StoreRelease(entry.uid, uid);
}

void CmIds::Move(uint32_t id, uint32_t file) {
  Id* entry = Find(id);
  if (entry != nullptr) rings::StoreRelaxed(entry->file, file);
}

void CmIds::Forget(uint32_t id) {
  Id* entry = Find(id);
  if (entry != nullptr) rings::StoreRelease(entry->uid, uint64_t{0});
}

bool CmIds::TakeOne(uint32_t file, uint32_t* id, uint64_t* uid) {
  for (uint32_t chunk = 0; chunk < kMost; chunk += kChunkIds) {
    if (Find(chunk) == nullptr) continue;
    for (uint32_t i = chunk; i < chunk + kChunkIds; ++i) {
      Id& entry = *Find(i);
      if (rings::LoadAcquire(entry.uid) == 0 || rings::LoadRelaxed(entry.file) != file) continue;
      *uid = __atomic_exchange_n(&entry.uid, uint64_t{0}, __ATOMIC_ACQ_REL);
      *id = i;
      if (*uid != 0) return true;  // No other thread took it first.
    }
  }
  return false;
}

void CopiedRegions::Write(Place& place, const CopiedRegion& region) {
  rings::StoreRelaxed(place.sequence, place.sequence + 1);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  rings::StoreRelaxed(place.region.lkey, region.lkey);
  rings::StoreRelaxed(place.region.pd, region.pd);
  rings::StoreRelaxed(place.region.iova, region.iova);
  rings::StoreRelaxed(place.region.start, region.start);
  rings::StoreRelaxed(place.region.length, region.length);
  rings::StoreRelease(place.sequence, place.sequence + 1);
}

void CopiedRegions::Add(const CopiedRegion& region) {
  if (rings::LoadRelaxed(is_used_) == 0) return;
  const MutexLock lock(mutex_);
  Write(places_[PlaceOf(region.lkey)], region);
  rings::StoreRelaxed(has_any_, 1u);
}

void CopiedRegions::Remove(uint32_t lkey) {
  if (empty()) return;
  const MutexLock lock(mutex_);
  Place& place = places_[PlaceOf(lkey)];
  if (place.region.lkey == lkey) Write(place, {});
}

bool CopiedRegions::Find(uint32_t lkey, uint32_t pd, uint64_t addr, uint64_t length,
                         uint64_t* start) const {
  const Place& place = places_[PlaceOf(lkey)];
  const uint32_t sequence = rings::LoadAcquire(place.sequence);
  const bool is_it =
      rings::LoadRelaxed(place.region.lkey) == lkey && rings::LoadRelaxed(place.region.pd) == pd;
  const uint64_t offset = addr - rings::LoadRelaxed(place.region.iova);
  const uint64_t bytes = rings::LoadRelaxed(place.region.length);
  *start = rings::LoadRelaxed(place.region.start) + offset;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (sequence % 2 != 0 || rings::LoadRelaxed(place.sequence) != sequence) return false;
  return is_it && offset <= bytes && length <= bytes - offset;
}

void EventTable::Add(EventSource& source, EventKind kind, void* object) {
  const MutexLock lock(mutex_);
  source = {.number = ++last_number_, .kind = kind, .object = object};
  EventSource*& chain = chains_[source.number % kChains];
  source.next = chain;
  chain = &source;
}

void EventTable::Remove(EventSource& source) {
  const MutexLock lock(mutex_);
  for (EventSource** link = &chains_[source.number % kChains]; *link != nullptr;
       link = &(*link)->next) {
    if (*link != &source) continue;
    *link = source.next;
    return;
  }
}

EventTable::Found EventTable::Take(uint64_t number, EventKind kind, void** object) {
  const MutexLock lock(mutex_);
  if (number == 0 || number > last_number_) return Found::kUnknown;
  EventSource* source = Find(number);
  if (source == nullptr) return Found::kEnded;
  const bool is_completion = kind == EventKind::kCompletion;
  if (source->kind != (is_completion ? EventKind::kCq : kind)) return Found::kUnknown;
  ++(is_completion ? source->completion_events : source->async_events);
  *object = source->object;
  return Found::kFound;
}

bool EventTable::HasEnded(uint64_t number) {
  const MutexLock lock(mutex_);
  return number != 0 && number <= last_number_ && Find(number) == nullptr;
}

EventSource* EventTable::Find(uint64_t number) const {
  EventSource* source = chains_[number % kChains];
  while (source != nullptr && source->number != number) source = source->next;
  return source;
}

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
