// SPDX-License-Identifier: Apache-2.0
// The number of packets between two PSNs whose order is known.
#pragma once

#include <cstdint>

#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// The most PSNs that a requester may have outstanding: half of the PSN space. With more, the
/// responder could not tell an old packet from a new one (docs/protocol/transport.md, section 2).
inline constexpr uint32_t kMaxOutstandingPsns = 1u << 23;

/// Packets from `from` up to `to`, in [0, 2^24). Psn::Since returns distances in [-2^23, 2^23). A
/// READ of 2^31 bytes in packets of 256 bytes needs the distance 2^23, which is outside of these.
constexpr uint32_t Distance(wire::Psn from, wire::Psn to) {
  return (to.value() - from.value()) & 0xffffff;
}

}  // namespace uroce::transport
