// SPDX-License-Identifier: Apache-2.0
// Decodes the connection manager's time codes (docs/protocol/cm.md, section 6). Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::nic::cm {

/// The time of a code: 4.096 us * 2^code. As in Linux's CM it is computed as 2^(code - 8) ms, at
/// least 1 ms.   Range: code <= 31.
constexpr Nanos TimeOf(uint8_t code) {
  const int exponent = code > 8 ? code - 8 : 0;
  return Nanos((int64_t{1} << exponent) * 1'000'000);
}

/// The longest times that a peer may ask for. Sending a message again too early does no harm; state
/// that a stranger can hold for hours does.
inline constexpr uint8_t kMostResponseTimeout = 22;  ///< 16 s.
inline constexpr uint8_t kMostServiceTimeout = 24;   ///< 65 s, as Linux's MRAs ask.
inline constexpr uint8_t kMostTimewait = 22;         ///< 16 s.

constexpr Nanos BoundedTimeOf(uint8_t code, uint8_t most) { return TimeOf(std::min(code, most)); }

/// A queue pair's ACK timeout code, from the peer's ACK delay and the packet life time, which are
/// codes too: the code of a time that covers the delay and two life times.
constexpr uint8_t AckTimeout(uint8_t ack_delay, uint8_t packet_life_time) {
  const int round_trip = packet_life_time + 1;
  const int longer = std::max<int>(round_trip, ack_delay);
  const int shorter = std::min<int>(round_trip, ack_delay);
  return static_cast<uint8_t>(std::min(31, longer + (shorter >= longer - 1 ? 1 : 0)));
}

}  // namespace uroce::nic::cm
