// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/scheduling.h"

#include <algorithm>
#include <bit>

namespace uroce::datapath {

TimerWheel::TimerWheel(Nanos now) : tick_(static_cast<uint64_t>(now.count()) >> kTickShift) {}

void TimerWheel::File(TimerEntry& entry, Nanos deadline) {
  Remove(entry);
  entry.deadline = deadline;
  Insert(entry);
}

void TimerWheel::Remove(TimerEntry& entry) {
  if (!entry.filed()) return;
  Unlink(entry);
  entry.deadline = kNever;
}

void TimerWheel::Insert(TimerEntry& entry) {
  // The tick is rounded up, so that nothing fires early.
  const int64_t ns = entry.deadline.count() < 0 ? 0 : entry.deadline.count();
  const uint64_t tick = (static_cast<uint64_t>(ns) + (1u << kTickShift) - 1) >> kTickShift;
  TimerEntry** head = &due_;
  entry.place = kDue;
  if (tick > tick_) {
    const int level = (63 - std::countl_zero(tick ^ tick_)) / kLevelShift;
    const int shift = level * kLevelShift;
    const auto slot = static_cast<int>(tick >> shift & (kSlots - 1));
    earliest_tick_ = std::min(earliest_tick_, tick >> shift << shift);
    occupied_[level] |= uint64_t{1} << slot;
    head = &heads_[level][slot];
    entry.place = static_cast<uint16_t>(level * kSlots + slot);
  }
  entry.previous = nullptr;
  entry.next = *head;
  if (*head != nullptr) (*head)->previous = &entry;
  *head = &entry;
}

void TimerWheel::Unlink(TimerEntry& entry) {
  if (entry.next != nullptr) entry.next->previous = entry.previous;
  if (entry.previous != nullptr) {
    entry.previous->next = entry.next;
    return;
  }
  if (entry.place == kDue) {
    due_ = entry.next;
    return;
  }
  const int level = entry.place / kSlots;
  const int slot = entry.place % kSlots;
  heads_[level][slot] = entry.next;
  if (entry.next == nullptr) occupied_[level] &= ~(uint64_t{1} << slot);
}

bool TimerWheel::FindEarliest(Slot& slot) const {
  for (int level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const int shift = level * kLevelShift;
    const uint64_t turn = tick_ >> (shift + kLevelShift) << (shift + kLevelShift);
    const auto index = static_cast<uint64_t>(std::countr_zero(occupied_[level]));
    slot = {.level = level, .start_tick = turn | index << shift};
    return true;
  }
  return false;
}

void TimerWheel::Open(const Slot& slot) {
  tick_ = slot.start_tick;
  const auto index = static_cast<int>(slot.start_tick >> (slot.level * kLevelShift) & (kSlots - 1));
  TimerEntry* entry = heads_[slot.level][index];
  heads_[slot.level][index] = nullptr;
  occupied_[slot.level] &= ~(uint64_t{1} << index);
  while (entry != nullptr) {
    TimerEntry* const next = entry->next;
    Insert(*entry);  // One level down, or due.
    entry = next;
  }
}

TimerEntry* TimerWheel::PopDue(uint64_t now_tick) {
  while (due_ == nullptr) {
    if (now_tick < earliest_tick_) {
      if (now_tick > tick_) tick_ = now_tick;
      return nullptr;
    }
    Slot slot;
    const bool found = FindEarliest(slot);
    earliest_tick_ = found ? slot.start_tick : UINT64_MAX;
    if (found && slot.start_tick <= now_tick) Open(slot);
  }
  TimerEntry* const entry = due_;
  Remove(*entry);
  return entry;
}

Nanos TimerWheel::NextDeadline() const {
  if (due_ != nullptr) return Nanos(0);
  Slot slot;
  if (!FindEarliest(slot)) return kNever;
  return Nanos(static_cast<int64_t>(slot.start_tick << kTickShift));
}

}  // namespace uroce::datapath
