// SPDX-License-Identifier: Apache-2.0
// A heap of numbered events, of which each has at most one time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// Events 0, 1, 2, ... each with a time or without. Of events with the same time the lowest number
/// comes first, so that each run of a simulation gives the same result.
class EventHeap {
 public:
  /// Sets the number of events. Range: no event is set.
  void Resize(uint32_t events) {
    places_.resize(events, kNowhere);
    heap_.reserve(events);
  }

  bool empty() const { return heap_.empty(); }
  Nanos next() const { return heap_.empty() ? kNever : heap_.front().time; }

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
  void Remove(uint32_t event) {
    const uint32_t place = places_[event];
    if (place == kNowhere) return;
    const Entry last = heap_.back();
    heap_.pop_back();
    places_[event] = kNowhere;
    if (place == heap_.size()) return;
    Put(place, last);
    Settle(place);
  }
  /// The earliest event. Range: not empty.
  uint32_t first() const { return heap_.front().event; }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Entry {
    Nanos time;
    uint32_t event;
    bool operator<(const Entry& other) const {
      return time != other.time ? time < other.time : event < other.event;
    }
  };

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

}  // namespace uroce::fabric
