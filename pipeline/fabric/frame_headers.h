// SPDX-License-Identifier: Apache-2.0
// What a switch reads in a frame, and the one thing it writes.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// Of any frame of at least 14 bytes, tagged or not.
struct FrameHeaders {
  Mac destination{};
  uint32_t flow_hash = 0;  ///< Of addresses, protocol and ports; of the MACs where it is no IP.
  bool is_ecn_capable = false;  ///< ECT(0), ECT(1) or CE.
  /// Of priority 6 or 7, by DSCP >> 3, or by the tag of a frame that is no IP: such frames, as
  /// CNPs are, go first, and are neither marked nor paused (docs/protocol/congestion.md, section
  /// 2).
  bool is_control = false;
};

/// Reads it; shorter frames have no headers.
FrameHeaders ReadHeaders(std::span<const uint8_t> frame);

/// Sets ECN to 3 in an IPv4 (keeping its checksum right) or IPv6 frame, tagged or not. False, and
/// nothing done, for other frames.
bool MarkCongestionExperienced(std::span<uint8_t> frame);

}  // namespace uroce::fabric
