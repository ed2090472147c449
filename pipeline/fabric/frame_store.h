// SPDX-License-Identifier: Apache-2.0
// The frames in a fabric: slots that are allocated at the start, and lists of slots.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "pipeline/fabric/frame.h"
#include "pipeline/fabric/frame_headers.h"

namespace uroce::fabric {

/// A frame in the fabric, or a PFC pause or resumption on a link.
struct Slot {
  enum class Kind : uint8_t { kFrame, kPause, kResume };
  Frame frame;
  FrameHeaders headers;
  Kind kind = Kind::kFrame;
  bool goes_everywhere = false;  ///< The frame goes to all hosts but the sender.
  uint32_t source_host = 0;
  uint32_t source_switch = 0;  ///< The switch of the sending host.
  uint32_t target_host = 0;    ///< Unless goes_everywhere.
  uint32_t arrived_by = 0;     ///< The link whose share_bytes include it.
  Nanos due;                   ///< Its arrival at the end of the link that it is on.
  uint32_t next = 0;
};

/// A pool of slots, which only Grow enlarges.
class FrameStore {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit FrameStore(uint32_t slots) { Grow(slots); }
  void Grow(uint32_t slots) {
    const auto first = static_cast<uint32_t>(slots_.size());
    slots_.resize(size_t{first} + slots);
    for (uint32_t i = 0; i < slots; ++i) Give(first + i);
  }

  uint32_t free_slots() const { return free_slots_; }
  Slot& operator[](uint32_t index) { return slots_[index]; }
  const Slot& operator[](uint32_t index) const { return slots_[index]; }
  /// Range: free_slots() is not 0.
  uint32_t Take() {
    assert(free_slots_ != 0);
    --free_slots_;
    const uint32_t index = first_free_;
    first_free_ = slots_[index].next;
    return index;
  }
  void Give(uint32_t index) {
    slots_[index].next = first_free_;
    first_free_ = index;
    ++free_slots_;
  }

 private:
  std::vector<Slot> slots_;
  uint32_t first_free_ = kNone;
  uint32_t free_slots_ = 0;
};

/// A first-in-first-out list of slots, linked by Slot::next.
class FrameList {
 public:
  bool empty() const { return frames_ == 0; }
  uint32_t frames() const { return frames_; }
  uint64_t bytes() const { return bytes_; }
  /// Range: not empty.
  uint32_t front() const { return front_; }

  void Append(FrameStore& store, uint32_t index) {
    store[index].next = FrameStore::kNone;
    (frames_ == 0 ? front_ : store[back_].next) = index;
    back_ = index;
    ++frames_;
    bytes_ += store[index].frame.length_bytes;
  }
  /// Range: not empty.
  uint32_t Pop(FrameStore& store) {
    const uint32_t index = front_;
    front_ = store[index].next;
    --frames_;
    bytes_ -= store[index].frame.length_bytes;
    return index;
  }

 private:
  uint32_t front_ = FrameStore::kNone;
  uint32_t back_ = FrameStore::kNone;
  uint32_t frames_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace uroce::fabric
