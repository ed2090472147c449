// SPDX-License-Identifier: Apache-2.0
// Counting packets between two PSNs where the order is known.
#pragma once

#include <cstdint>

#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// The most PSNs that a requester may have outstanding: half of the space, or the responder could
/// not tell an old packet from a new one (docs/protocol/transport.md, section 2).
inline constexpr uint32_t kMaxOutstandingPsns = 1u << 23;

/// Packets from `from` up to `to`, in [0, 2^24). Psn::Since folds the far half into the past; a
/// READ of 2^31 bytes in packets of 256 needs the one distance that it cannot tell, 2^23.
constexpr uint32_t Distance(wire::Psn from, wire::Psn to) {
  return (to.value() - from.value()) & 0xffffff;
}

}  // namespace uroce::transport
