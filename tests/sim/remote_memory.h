// SPDX-License-Identifier: Apache-2.0
// Memory that a peer reaches under a key, and that knows what must never happen to it.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// Layout: counters for atomics, then bytes that are written once each or only read. Writing a byte
/// twice is a fault: a request was executed twice.
class RemoteMemory {
 public:
  static constexpr uint32_t kCounters = 4;
  static constexpr uint64_t kBase = 0x7f0000001000;
  static constexpr uint64_t kDataBase = kBase + kCounters * 8;

  RemoteMemory(uint32_t data_bytes, Rkey rkey, Random& random)
      : rkey_(rkey), bytes_(kCounters * 8 + data_bytes), written_(bytes_.size()) {
    random.Fill(std::span(bytes_).subspan(kCounters * 8));
  }

  Rkey rkey() const { return rkey_; }
  uint32_t data_bytes() const { return static_cast<uint32_t>(bytes_.size() - kCounters * 8); }
  bool Allows(Rkey rkey, uint64_t va, uint32_t length) const {
    return rkey == rkey_ && va >= kBase && va - kBase + length <= bytes_.size();
  }
  std::span<const uint8_t> At(uint64_t va, uint32_t length) const {
    return std::span(bytes_).subspan(va - kBase, length);
  }
  /// False when some byte had been written before.
  bool Write(uint64_t va, std::span<const uint8_t> data) {
    bool once = true;
    for (size_t i = 0; i < data.size(); ++i) {
      const size_t at = va - kBase + i;
      once = once && !written_[at];
      written_[at] = true;
      bytes_[at] = data[i];
    }
    return once;
  }
  uint64_t Load(uint64_t va) const {
    uint64_t value;
    std::memcpy(&value, &bytes_[va - kBase], 8);
    return value;
  }
  void Store(uint64_t va, uint64_t value) { std::memcpy(&bytes_[va - kBase], &value, 8); }

 private:
  Rkey rkey_;
  std::vector<uint8_t> bytes_;
  std::vector<bool> written_;
};

}  // namespace uroce::sim
