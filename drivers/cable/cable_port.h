// SPDX-License-Identifier: Apache-2.0
// The in-process cable, which settings call a wire: two ports joined by bounded rings of frames.
// Frames are not copied or lost: a full ring makes the sender wait. With several queues there is a
// ring from each queue to each queue, and the sender picks the ring of the worker that owns the
// queue pair: frames change cores once. An end whose other end is gone has no link, and loses and
// counts what it sends.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/port/port.h"

namespace uroce::drivers {

/// One end of a cable.
struct CableEndConfig {
  Mac mac{};
  uint32_t mtu_bytes = 9000;  ///< RoCE then uses path MTU 4096.
};

/// Both ends. One thread drives each queue; the same thread may drive several.
struct Cable {
  std::unique_ptr<Port> first;
  std::unique_ptr<Port> second;
};

/// Frames in each direction: enough for a burst to be on its way while the next one is made, and so
/// few that the frames in flight stay in the second-level cache.
inline constexpr uint32_t kCableDepthFrames = 128;

/// The settings of a cable.
struct CableConfig {
  uint32_t depth_frames = kCableDepthFrames;  ///< The depth of each ring, exactly.
  /// Queues of each end: the number of workers. Worker i drives queue i at both ends.
  uint16_t queues = 1;
};

/// Makes a cable. Frames must come from pools that outlive both ends.
absl::StatusOr<Cable> MakeCable(const CableEndConfig& first, const CableEndConfig& second,
                                const CableConfig& config = {});

}  // namespace uroce::drivers
