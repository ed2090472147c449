// SPDX-License-Identifier: Apache-2.0
// The 40 bytes in front of a received datagram, in the place of InfiniBand's GRH.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/wire/decode.h"

namespace uroce::wire {

/// The IP header of a decoded frame in the form that programs expect: an IPv6 header from byte 0
/// on, or 20 zeros and an IPv4 header. Programs recognize the IPv4 header by its checksum
/// (docs/protocol/wire-format.md, section 3.1).
std::array<uint8_t, 40> GrhArea(std::span<const uint8_t> frame, const FrameView& view);

}  // namespace uroce::wire
