// SPDX-License-Identifier: Apache-2.0
// Builds REQ, REP and SIDR_REQ as rdma_cm does for RoCEv2 (docs/protocol/cm.md, sections 2, 3 and
// 6), with their time codes and private data. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "nic/cm/types.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/cm/message.h"

namespace uroce::nic::cm {

// ---- time codes ----

/// The time of a code: 4.096 us * 2^code. As in Linux's CM it is computed as 2^(code - 8) ms, at
/// least 1 ms.   Range: code <= 31.
constexpr Nanos TimeOf(uint8_t code) {
  const int exponent = code > 8 ? code - 8 : 0;
  return Nanos((int64_t{1} << exponent) * 1'000'000);
}

/// The longest times that a peer may ask for. Sending a message again too early does no harm; state
/// that an unknown host can hold for hours does.
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

// ---- private data ----

/// Returns a field that starts with `data` and ends in zeros.   Range: `data` fits.
template <size_t bytes>
wire::CmBytes<bytes> Padded(std::span<const uint8_t> data) {
  wire::CmBytes<bytes> field{};
  std::ranges::copy(data.first(std::min(bytes, data.size())), field.begin());
  return field;
}

// ---- requests ----

/// Makes the REQ of a connection.   Range: private data of at most kConnectPrivateBytes.
wire::CmReq MakeReq(CommId id, const ConnectParameters& parameters);
/// Makes the REP to a REQ. `xrc`: the queue pair is a target of an XRC domain; a REP carries the
/// number of such a queue pair in another field.
wire::CmRep MakeRep(CommId id, CommId remote_id, bool xrc, const AcceptParameters& parameters);
/// Makes the request for a service's queue pair.   Range: at most kResolvePrivateBytes.
wire::CmSidrReq MakeSidrReq(CommId id, const ResolveParameters& parameters);

}  // namespace uroce::nic::cm
