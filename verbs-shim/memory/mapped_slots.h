// SPDX-License-Identifier: Apache-2.0
// Objects in reusable slots, each known by its index.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbs-shim/memory/mapped_array.h"

namespace uroce::memory {

/// For objects of static storage, like MappedArray. Free slots keep their last value.
template <typename T>
class MappedSlots {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Adds a copy of `value`, and returns its index; kNone: no memory.
  [[nodiscard]] uint32_t Add(const T& value) {
    const uint32_t index = first_free_;
    if (index == kNone) {
      const Slot slot{.value = value, .next_free = kNone};
      return slots_.Append(slot) ? static_cast<uint32_t>(slots_.size() - 1) : kNone;
    }
    first_free_ = slots_[index].next_free;
    slots_[index].value = value;
    return index;
  }

  void Remove(uint32_t index) {
    slots_[index].next_free = first_free_;
    first_free_ = index;
  }

  void Clear() {
    slots_.Clear();
    first_free_ = kNone;
  }

  T& operator[](uint32_t index) { return slots_[index].value; }
  const T& operator[](uint32_t index) const { return slots_[index].value; }
  /// One more than the greatest index ever used.
  uint32_t end_index() const { return static_cast<uint32_t>(slots_.size()); }

 private:
  struct Slot {
    T value;
    uint32_t next_free;
  };

  MappedArray<Slot> slots_;
  uint32_t first_free_ = kNone;
};

}  // namespace uroce::memory
