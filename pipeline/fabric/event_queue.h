// SPDX-License-Identifier: Apache-2.0
// Numbered events in the order of their times. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// Events 0, 1, 2, ... each with a time or without. Of events with the same time the lowest number
/// comes first, so that each run of a simulation gives the same result.
class EventHeap {
 public:
  struct Entry {
    Nanos time = kNever;
    uint32_t event = 0;
    bool operator<(const Entry& other) const {
      return time != other.time ? time < other.time : event < other.event;
    }
  };

  /// Sets the number of events. Range: no event is set.
  void Resize(uint32_t events) {
    places_.resize(events, kNowhere);
    heap_.reserve(events);
  }

  bool empty() const { return heap_.empty(); }

  /// Gives `event` a time, or changes its time.
  void Set(uint32_t event, Nanos time) {
    if (places_[event] == kNowhere) {
      places_[event] = static_cast<uint32_t>(heap_.size());
      heap_.push_back({time, event});
    } else {
      heap_[places_[event]].time = time;
    }
    Settle(places_[event]);
  }
  /// Returns the time that it had; one before all times without one.
  Nanos Remove(uint32_t event) {
    const uint32_t place = places_[event];
    if (place == kNowhere) return Nanos(INT64_MIN);
    const Nanos time = heap_[place].time;
    const Entry last = heap_.back();
    heap_.pop_back();
    places_[event] = kNowhere;
    if (place == heap_.size()) return time;
    Put(place, last);
    Settle(place);
    return time;
  }
  /// The earliest event. Range: not empty.
  const Entry& first() const { return heap_.front(); }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  void Put(uint32_t place, const Entry& entry) {
    heap_[place] = entry;
    places_[entry.event] = place;
  }
  void Settle(uint32_t place) { Sink(Rise(place)); }
  uint32_t Rise(uint32_t place) {
    const Entry entry = heap_[place];
    while (place != 0 && entry < heap_[(place - 1) / 2]) {
      Put(place, heap_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    Put(place, entry);
    return place;
  }
  void Sink(uint32_t place) {
    const Entry entry = heap_[place];
    while (2 * place + 1 < heap_.size()) {
      uint32_t child = 2 * place + 1;
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < entry)) break;
      Put(place, heap_[child]);
      place = child;
    }
    Put(place, entry);
  }

  std::vector<Entry> heap_;
  std::vector<uint32_t> places_;
};

/// Events as in EventHeap, faster: those of the next kSpan ns, most events of a fast network, are
/// in a ring of lists, one for each ns; all others are in a heap. The list of the present ns is
/// sorted when its first event is asked for.
class EventQueue {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Sets the number of events. Range: no event is set.
  void Resize(uint32_t events) {
    heap_.Resize(events);
    nodes_.resize(events);
  }

  bool empty() const { return heap_.empty() && open_.empty() && words_ == 0; }
  Nanos next() const { return next_; }
  /// The earliest event. Range: not empty. It is fast if no event gets an earlier time afterwards.
  uint32_t first() {
    if (next_ > now_) now_ = next_;
    if (open_.empty() && HasAt(now_)) Open();
    if (open_.empty()) return heap_.first().event;
    const EventHeap::Entry near{now_, open_.back()};
    return !heap_.empty() && heap_.first() < near ? heap_.first().event : near.event;
  }
  /// Events that come soon behind the first, after first(), for prefetching; kNone for want of
  /// them.
  std::array<uint32_t, 3> Soon() const {
    std::array<uint32_t, 3> soon{kNone, kNone, kNone};
    size_t found = 0;
    for (size_t i = 2; i <= open_.size() && found < soon.size(); ++i) {
      soon[found++] = open_[open_.size() - i];
    }
    uint32_t event = found < soon.size() ? From(now_ + Nanos(1)) : kNone;
    for (; found < soon.size() && event != kNone; event = Behind(event)) soon[found++] = event;
    return soon;
  }
  /// The hint that Set was given for an event of Soon.
  uint32_t HintOf(uint32_t event) const { return nodes_[event].hint; }

  /// Gives `event` a time, or changes its time. `hint`: what to prefetch for it.
  void Set(uint32_t event, Nanos time, uint32_t hint = 0) {
    const Nanos former = Take(event);
    const bool is_near = static_cast<uint64_t>((time - now_).count()) < kSpan;
    is_near ? Add(event, time, hint) : heap_.Set(event, time);
    if (former == next_) {
      FindNext();
    } else if (time < next_) {
      next_ = time;
    }
  }
  void Remove(uint32_t event) {
    if (Take(event) == next_) FindNext();
  }

 private:
  static constexpr uint32_t kSpan = 4096;
  static constexpr uint32_t kUnset = UINT32_MAX - 1;
  static constexpr uint32_t kInOpen = UINT32_MAX - 2;
  struct Node {
    Nanos time;
    uint32_t next = kUnset;
    uint32_t previous = kNone;
    uint32_t hint = 0;
  };

  static uint32_t PlaceOf(Nanos time) { return static_cast<uint64_t>(time.count()) % kSpan; }
  bool HasAt(Nanos time) const { return heads_[PlaceOf(time)] != kNone; }

  void Add(uint32_t event, Nanos time, uint32_t hint) {
    Node& node = nodes_[event];
    node = {.time = time, .hint = hint};
    if (time == now_ && !open_.empty()) {
      node.next = kInOpen;
      open_.insert(std::ranges::lower_bound(open_, event, std::greater<>()), event);
      return;
    }
    const uint32_t place = PlaceOf(time);
    node.next = heads_[place];
    if (node.next != kNone) nodes_[node.next].previous = event;
    heads_[place] = event;
    used_[place / 64] |= uint64_t{1} << place % 64;
    words_ |= uint64_t{1} << place / 64;
  }
  /// Takes an event from where it is. Returns its time; one before all times without one.
  Nanos Take(uint32_t event) {
    Node& node = nodes_[event];
    if (node.next == kUnset) return heap_.Remove(event);
    if (node.next == kInOpen && open_.back() == event) {
      open_.pop_back();
    } else if (node.next == kInOpen) {
      open_.erase(std::ranges::lower_bound(open_, event, std::greater<>()));
    } else {
      Unlink(node);
    }
    node.next = kUnset;
    return node.time;
  }
  void Unlink(const Node& node) {
    const uint32_t place = PlaceOf(node.time);
    (node.previous != kNone ? nodes_[node.previous].next : heads_[place]) = node.next;
    if (node.next != kNone) nodes_[node.next].previous = node.previous;
    if (heads_[place] == kNone) Leave(place);
  }
  void Leave(uint32_t place) {
    used_[place / 64] &= ~(uint64_t{1} << place % 64);
    if (used_[place / 64] == 0) words_ &= ~(uint64_t{1} << place / 64);
  }
  /// Sorts the list of the present ns, the first event last.
  void Open() {
    const uint32_t place = PlaceOf(now_);
    for (uint32_t event = heads_[place]; event != kNone;) {
      open_.push_back(event);
      event = std::exchange(nodes_[event].next, kInOpen);
    }
    heads_[place] = kNone;
    Leave(place);
    if (open_.size() > 1) std::ranges::sort(open_, std::greater<>());
  }
  /// The first in the lists from `time` on, around the ring; kNone when it is empty.
  uint32_t From(Nanos time) const {
    if (words_ == 0) return kNone;
    const uint32_t place = PlaceOf(time);
    const uint64_t rest = used_[place / 64] >> place % 64;
    if (rest != 0) return heads_[place + static_cast<uint32_t>(std::countr_zero(rest))];
    // The next word in use; the last is that of `place` again.
    const uint32_t after = (place / 64 + 1) % 64;
    const uint64_t words = std::rotr(words_, static_cast<int>(after));
    const uint32_t word = (after + static_cast<uint32_t>(std::countr_zero(words))) % 64;
    return heads_[word * 64 + static_cast<uint32_t>(std::countr_zero(used_[word]))];
  }
  uint32_t Behind(uint32_t event) const {
    const uint32_t next = nodes_[event].next;
    return next != kNone ? next : From(nodes_[event].time + Nanos(1));
  }
  void FindNext() {
    next_ = heap_.empty() ? kNever : heap_.first().time;
    if (!open_.empty()) {
      next_ = std::min(next_, now_);
    } else if (const uint32_t near = From(now_); near != kNone) {
      next_ = std::min(next_, nodes_[near].time);
    }
  }

  EventHeap heap_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> heads_ = std::vector<uint32_t>(kSpan, kNone);
  std::array<uint64_t, kSpan / 64> used_{};  ///< A bit for each list with events,
  uint64_t words_ = 0;                       ///< and one for each word of them that is not 0.
  std::vector<uint32_t> open_;  ///< The events of the present ns, once they are sorted.
  Nanos now_{0};                ///< The ring's events are of kSpan ns from here on.
  Nanos next_ = kNever;
};

}  // namespace uroce::fabric
