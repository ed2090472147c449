// SPDX-License-Identifier: Apache-2.0
// The header fields of a frame that a switch reads, and the ECN mark that it writes.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// The fields of a frame of at least 14 bytes, with or without VLAN tag.
struct FrameHeaders {
  Mac destination{};
  uint32_t flow_hash = 0;       ///< Of IP addresses, protocol and ports; without IP, of the MACs.
  bool is_ecn_capable = false;  ///< ECT(0), ECT(1) or CE.
  /// Whether the priority is 6 or 7: DSCP >> 3, or the tag's priority in a frame without IP. Such
  /// frames, CNPs among them, go first, and are neither marked nor paused
  /// (docs/protocol/congestion.md, section 2).
  bool is_control = false;
};

/// Reads the fields. For frames shorter than 14 bytes all fields are 0.
FrameHeaders ReadHeaders(std::span<const uint8_t> frame);

/// Sets ECN to 3 in an IPv4 frame (and corrects its checksum) or IPv6 frame, tagged or not. Other
/// frames stay unchanged: false.
bool MarkCongestionExperienced(std::span<uint8_t> frame);

}  // namespace uroce::fabric
