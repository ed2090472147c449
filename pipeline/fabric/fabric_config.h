// SPDX-License-Identifier: Apache-2.0
// The configuration of the switches and links of a fabric.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// The configuration of a cable; both directions are alike.
struct LinkConfig {
  uint64_t rate_bps = 100'000'000'000;  ///< Not 0. Counts all bits on the wire, see WireBytes.
  Nanos delay{0};                       ///< From the departure of the last bit to its arrival.
  /// The most bytes that wait in a host for its link, and one frame. Not 0. See Fabric::SendRoom.
  uint32_t host_queue_bytes = 64 * 1024;
};

/// RED on the queue of an egress port (docs/protocol/congestion.md, section 5): the probability is
/// 0 for q <= min_bytes, max_probability * (q - min) / (max - min) for min < q <= max, and 1 above.
/// Equal thresholds are a cut-off.
struct EcnConfig {
  bool on = false;
  uint32_t min_bytes = 0;
  uint32_t max_bytes = 0;  ///< >= min_bytes.
  double max_probability = 1;
};

/// The probability for a frame that finds `queue_bytes` in the queue.
constexpr double MarkProbability(const EcnConfig& ecn, uint64_t queue_bytes) {
  if (!ecn.on || queue_bytes <= ecn.min_bytes) return 0;
  if (queue_bytes > ecn.max_bytes) return 1;
  return ecn.max_probability * static_cast<double>(queue_bytes - ecn.min_bytes) /
         static_cast<double>(ecn.max_bytes - ecn.min_bytes);
}

/// A link is paused when more than `xoff_bytes` that arrived by it wait in the switch, and resumed
/// at `xon_bytes` or less. Frames that arrive before the pause takes effect need buffer room.
struct PfcConfig {
  bool on = false;
  uint32_t xoff_bytes = 0;
  uint32_t xon_bytes = 0;  ///< <= xoff_bytes.
};

struct SwitchConfig {
  uint64_t buffer_bytes = 1 << 20;  ///< For frames that wait at all its egress ports.
  EcnConfig ecn;
  PfcConfig pfc;
};

struct FabricConfig {
  uint32_t max_frames = 16384;  ///< The most frames in the whole fabric.
  uint64_t seed = 1;            ///< Seeds the marks and the choice between equal paths.
};

/// Bytes on the line of a frame without FCS: at least 64 with FCS, then preamble, start and gap.
constexpr uint32_t WireBytes(uint32_t length_bytes) {
  constexpr uint32_t kShortest = 60;
  constexpr uint32_t kFcs = 4;
  constexpr uint32_t kPreambleAndGap = 20;
  return (length_bytes < kShortest ? kShortest : length_bytes) + kFcs + kPreambleAndGap;
}

}  // namespace uroce::fabric
