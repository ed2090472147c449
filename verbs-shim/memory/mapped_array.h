// SPDX-License-Identifier: Apache-2.0
// An array that grows in pages of its own. It uses no heap, because the heap may be
// write-protected, and because a program's own allocator must not see our allocations.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

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

}  // namespace uroce::memory
