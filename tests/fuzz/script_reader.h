// SPDX-License-Identifier: Apache-2.0
// The bytes of a script, taken from their beginning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace uroce::fuzz {

/// The bytes of a script that are still to come.
class ScriptReader {
 public:
  explicit ScriptReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool AtEnd() const { return bytes_.empty(); }
  /// Of `width` bytes, at most 4. 0 behind the end.
  uint32_t Number(size_t width) {
    uint32_t value = 0;
    std::memcpy(&value, bytes_.data(), std::min(width, bytes_.size()));
    bytes_ = bytes_.subspan(std::min(width, bytes_.size()));
    return value;
  }
  /// Fewer than `count` at the end.
  std::vector<uint8_t> Bytes(size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace uroce::fuzz
