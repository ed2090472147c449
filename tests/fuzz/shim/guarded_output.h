// SPDX-License-Identifier: Apache-2.0
// Memory for the output of a call, between bytes that the call must not change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace uroce::fuzz {

template <typename T>
class GuardedOutput {
 public:
  explicit GuardedOutput(size_t count = 1) : bytes_(2 * kGuardBytes + count * sizeof(T), kGuard) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memset(data(), 0, count * sizeof(T));
  }

  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuardBytes); }
  T& operator*() { return *data(); }
  T* operator->() { return data(); }
  bool IsIntact() const {
    const auto is_guard = [](uint8_t byte) { return byte == kGuard; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuardBytes, is_guard) &&
           std::all_of(bytes_.end() - kGuardBytes, bytes_.end(), is_guard);
  }

 private:
  static constexpr uint8_t kGuard = 0xa5;
  static constexpr std::ptrdiff_t kGuardBytes = 256;

  std::vector<uint8_t> bytes_;
};

}  // namespace uroce::fuzz
