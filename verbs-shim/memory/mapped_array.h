// SPDX-License-Identifier: Apache-2.0
// Arrays and slots in their own mappings, without the heap.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- An array that grows in its own pages ----
// It uses no heap, because the heap may be write-protected, and because a program's own allocator
// must not see our allocations.

inline constexpr size_t kFirstArrayBytes = 64 << 10;

/// For objects of static storage, which live as long as the process. It has no destructor, so that
/// no code runs at exit while other threads still register. Other owners call Release().
template <typename T>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Adds one element. Returns false, and changes nothing, when there is no memory.
  [[nodiscard]] bool Append(const T& value) {
    if (size_ == capacity_ && !Grow()) return false;
    data_[size_++] = value;
    return true;
  }

  void Clear() { size_ = 0; }

  /// Shortens the array to its first `size` elements.
  void Truncate(size_t size) {
    if (size < size_) size_ = size;
  }

  void Release() {
    if (data_ != nullptr) SystemCall(SYS_munmap, data_, capacity_ * sizeof(T));
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  T& operator[](size_t index) { return data_[index]; }
  const T& operator[](size_t index) const { return data_[index]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& back() { return data_[size_ - 1]; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  bool Grow() {
    const size_t old_bytes = capacity_ * sizeof(T);
    const size_t bytes = old_bytes == 0 ? kFirstArrayBytes : 2 * old_bytes;
    const int64_t address = old_bytes == 0
                                ? SystemCall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                : SystemCall(SYS_mremap, data_, old_bytes, bytes, MREMAP_MAYMOVE);
    if (IsError(address)) return false;
    data_ = reinterpret_cast<T*>(address);
    capacity_ = bytes / sizeof(T);
    return true;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// ---- Objects in reusable slots, each known by its index ----

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
