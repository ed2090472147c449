// SPDX-License-Identifier: Apache-2.0
// Random choices from a seed, the same on every machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <span>

namespace uroce::sim {

/// SplitMix64, because the distributions of the standard library differ between implementations.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// A number in [0, bound).
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(Next() % bound); }
  /// True with a chance of `chance` in `of`.
  bool Happens(uint32_t chance, uint32_t of = 1000) { return Below(of) < chance; }
  void Fill(std::span<uint8_t> bytes) {
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      const uint64_t word = Next();
      std::memcpy(bytes.data(), &word, 8);
    }
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(Next());
  }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return *std::next(values.begin(), Below(static_cast<uint32_t>(values.size())));
  }

 private:
  uint64_t state_;
};

}  // namespace uroce::sim
