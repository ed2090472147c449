// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/event_table.h"

namespace uroce::shim {

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

}  // namespace uroce::shim
