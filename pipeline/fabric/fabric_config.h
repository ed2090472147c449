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
  double loss = 0;                      ///< The part of the frames that the line loses.
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

/// The buffer of each port that PFC takes to lose no frame: after a pause is decided these still
/// arrive: a frame while the pause waits for the line, what is sent while the pause is on its way,
/// what is on its way then, and the sender's current frame. Two frames more wait.
constexpr uint64_t LeastPfcShare(const LinkConfig& link, uint32_t frame_bytes) {
  const uint64_t on_the_way =
      2 * static_cast<uint64_t>(link.delay.count()) * (link.rate_bps / 1'000'000) / 8'000;
  return on_the_way + 5 * uint64_t{frame_bytes};
}

/// Thresholds by which a switch with `ports` loses no frame; not on where its buffer is too small.
constexpr PfcConfig LosslessPfc(uint64_t buffer_bytes, uint32_t ports, const LinkConfig& link,
                                uint32_t frame_bytes) {
  const uint64_t share = buffer_bytes / (ports == 0 ? 1 : ports);
  const uint64_t least = LeastPfcShare(link, frame_bytes);
  if (share < least) return {};
  const uint64_t room = share - least + 2 * uint64_t{frame_bytes};
  const auto xoff = static_cast<uint32_t>(room < UINT32_MAX ? room : UINT32_MAX);
  return {.on = true, .xoff_bytes = xoff, .xon_bytes = xoff / 4 * 3};
}

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
