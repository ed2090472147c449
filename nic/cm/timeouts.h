// SPDX-License-Identifier: Apache-2.0
// The connection manager's codes of time (docs/protocol/cm.md, section 6). Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::nic::cm {

/// What a code stands for: 4.096 us * 2^code, which Linux's CM takes as 2^(code - 8) ms, at least
/// one.   Range: code <= 31.
constexpr Nanos TimeOf(uint8_t code) {
  const int exponent = code > 8 ? code - 8 : 0;
  return Nanos((int64_t{1} << exponent) * 1'000'000);
}

/// The longest times that a peer may ask for. A message that is sent again too early does no harm;
/// state that a stranger can keep for hours does.
inline constexpr uint8_t kMostResponseTimeout = 22;  ///< 16 s.
inline constexpr uint8_t kMostServiceTimeout = 24;   ///< 65 s, what Linux's MRAs say.
inline constexpr uint8_t kMostTimewait = 22;         ///< 16 s.

constexpr Nanos BoundedTimeOf(uint8_t code, uint8_t most) { return TimeOf(std::min(code, most)); }

/// A queue pair's ACK timeout from the peer's ACK delay and a packet's life time, all codes: the
/// code of a time that holds the delay and two life times.
constexpr uint8_t AckTimeout(uint8_t ack_delay, uint8_t packet_life_time) {
  const int round_trip = packet_life_time + 1;
  const int longer = std::max<int>(round_trip, ack_delay);
  const int shorter = std::min<int>(round_trip, ack_delay);
  return static_cast<uint8_t>(std::min(31, longer + (shorter >= longer - 1 ? 1 : 0)));
}

}  // namespace uroce::nic::cm
