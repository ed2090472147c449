// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a script from their beginning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace uroce::fuzz {

/// The bytes of a script that were not read yet.
class ScriptReader {
 public:
  explicit ScriptReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool AtEnd() const { return bytes_.empty(); }
  /// A number of `width` bytes, at most 4; 0 after the end.
  uint32_t Number(size_t width) {
    uint32_t value = 0;
    std::memcpy(&value, bytes_.data(), std::min(width, bytes_.size()));
    bytes_ = bytes_.subspan(std::min(width, bytes_.size()));
    return value;
  }
  /// The next `count` bytes; fewer at the end.
  std::vector<uint8_t> Bytes(size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace uroce::fuzz
