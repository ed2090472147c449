// SPDX-License-Identifier: Apache-2.0
// Packet sequence numbers and their circular arithmetic.
#pragma once

#include <cstdint>

namespace uroce::wire {

/// Packet sequence number: 24 bits, circular. The 2^23 PSNs before a PSN are its past.
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & 0xffffff) {}
  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t packets) const { return Psn(value_ + packets); }
  constexpr Psn operator-(uint32_t packets) const { return Psn(value_ - packets); }
  /// Packets from `origin` to this PSN, in [-2^23, 2^23).
  constexpr int32_t Since(Psn origin) const {
    return static_cast<int32_t>((value_ - origin.value_) << 8) >> 8;
  }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t value_ = 0;
};

}  // namespace uroce::wire
