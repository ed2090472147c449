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

/// The most PSNs that a requester may have outstanding: half of the PSN space. With more, the
/// responder could not tell an old packet from a new one (docs/protocol/transport.md, section 2).
inline constexpr uint32_t kMaxOutstandingPsns = 1u << 23;

/// Packets from `from` up to `to`, in [0, 2^24). Psn::Since returns distances in [-2^23, 2^23). A
/// READ of 2^31 bytes in packets of 256 bytes needs the distance 2^23, which is outside of these.
constexpr uint32_t Distance(Psn from, Psn to) { return (to.value() - from.value()) & 0xffffff; }

}  // namespace uroce::wire
