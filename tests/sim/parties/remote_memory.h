// SPDX-License-Identifier: Apache-2.0
// Memory that a peer accesses by a key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// Its layout: counters for atomics, then bytes for any use.
class RemoteMemory {
 public:
  static constexpr uint32_t kCounters = 4;
  static constexpr uint64_t kBase = 0x7f0000001000;

  RemoteMemory(uint32_t data_bytes, Rkey rkey, Random& random)
      : rkey_(rkey), size_(kCounters * 8 + data_bytes) {
    Fill(random);
  }

  Rkey rkey() const { return rkey_; }
  uint32_t size_bytes() const { return size_; }
  bool Allows(Rkey rkey, uint64_t va, uint32_t length) const {
    return rkey == rkey_ && va >= kBase && va - kBase + length <= bytes_.size();
  }
  std::span<const uint8_t> At(uint64_t va, uint32_t length) const {
    return std::span(bytes_).subspan(va - kBase, length);
  }
  void Write(uint64_t va, std::span<const uint8_t> data) {
    std::ranges::copy(data, bytes_.begin() + static_cast<ptrdiff_t>(va - kBase));
  }
  uint64_t Load(uint64_t va) const {
    uint64_t value;
    std::memcpy(&value, &bytes_[va - kBase], 8);
    return value;
  }
  void Store(uint64_t va, uint64_t value) { std::memcpy(&bytes_[va - kBase], &value, 8); }

 private:
  /// Fills the memory with bytes from any place in a block that is drawn once: to draw all bytes
  /// would take longer than to send them.
  void Fill(Random& random) {
    static const std::vector<uint8_t> kBlock = [] {
      std::vector<uint8_t> block(1 << 20);
      Random(1).Fill(block);
      return block;
    }();
    bytes_.reserve(size_);
    bytes_.resize(kCounters * 8);
    while (bytes_.size() != size_) {
      const size_t size = std::min<size_t>(size_ - bytes_.size(), 1 << 16);
      const auto from = kBlock.begin() + random.Below(static_cast<uint32_t>(kBlock.size() - size));
      bytes_.insert(bytes_.end(), from, from + static_cast<ptrdiff_t>(size));
    }
  }

  Rkey rkey_;
  uint32_t size_;
  std::vector<uint8_t> bytes_;
};

}  // namespace uroce::sim
