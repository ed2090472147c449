// SPDX-License-Identifier: Apache-2.0
// Memory that a peer reaches under a key, and that knows what must never happen to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// Layout: counters for atomics, then bytes that are written once each or only read. Writing a byte
/// twice is a fault: a request was executed twice. Plans write from the start upwards, so what is
/// written shows whether all before some place is there.
class RemoteMemory {
 public:
  static constexpr uint32_t kCounters = 4;
  static constexpr uint64_t kBase = 0x7f0000001000;
  static constexpr uint64_t kDataBase = kBase + kCounters * 8;

  RemoteMemory(uint32_t data_bytes, Rkey rkey, Random& random)
      : rkey_(rkey), written_(kCounters * 8 + data_bytes) {
    Fill(random);
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
    if (data.empty()) return true;
    if (va < kDataBase) {  // Counters are written again and again.
      std::memcpy(&bytes_[va - kBase], data.data(), data.size());
      return true;
    }
    uint8_t* const marks = &written_[va - kBase];
    const bool once = std::memchr(marks, 1, data.size()) == nullptr;
    std::memset(marks, 1, data.size());
    std::memcpy(&bytes_[va - kBase], data.data(), data.size());
    return once;
  }
  /// Whether all data bytes up to `va` were written.
  bool IsWrittenUpTo(uint64_t va) {
    const auto* const gap = static_cast<const uint8_t*>(
        std::memchr(&written_[complete_], 0, written_.size() - complete_));
    complete_ = gap == nullptr ? written_.size() : static_cast<size_t>(gap - written_.data());
    return va - kBase <= complete_;
  }
  uint64_t Load(uint64_t va) const {
    uint64_t value;
    std::memcpy(&value, &bytes_[va - kBase], 8);
    return value;
  }
  void Store(uint64_t va, uint64_t value) { std::memcpy(&bytes_[va - kBase], &value, 8); }

 private:
  /// Bytes of a block drawn once, from anywhere in it: to draw all of them takes longer than to
  /// send them.
  void Fill(Random& random) {
    static const std::vector<uint8_t> kBlock = [] {
      std::vector<uint8_t> block(1 << 20);
      Random(1).Fill(block);
      return block;
    }();
    bytes_.reserve(written_.size());
    bytes_.resize(kCounters * 8);
    while (bytes_.size() != written_.size()) {
      const size_t size = std::min<size_t>(written_.size() - bytes_.size(), 1 << 16);
      const auto from = kBlock.begin() + random.Below(static_cast<uint32_t>(kBlock.size() - size));
      bytes_.insert(bytes_.end(), from, from + static_cast<ptrdiff_t>(size));
    }
  }

  Rkey rkey_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> written_;  ///< 1 where it was.
  size_t complete_ = kCounters * 8;
};

}  // namespace uroce::sim
