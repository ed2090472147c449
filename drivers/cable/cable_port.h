// SPDX-License-Identifier: Apache-2.0
// The in-process wire: two ports joined by bounded rings of frames. Frames are not copied or lost:
// a full ring makes the sender wait. With several queues there is a ring from each queue to each
// queue, and the sender picks the ring of the worker that owns the queue pair: frames change cores
// once. An end whose other end is gone has no link, and loses and counts what it sends.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/port/port.h"

namespace uroce::drivers {

/// One end of a wire.
struct WireEndConfig {
  Mac mac{};
  uint32_t mtu_bytes = 9000;  ///< RoCE then uses path MTU 4096.
};

/// Both ends. One thread drives each queue; the same thread may drive several.
struct Wire {
  std::unique_ptr<Port> first;
  std::unique_ptr<Port> second;
};

/// Frames in each direction: enough for a burst to be on its way while the next one is made, and so
/// few that the frames in flight stay in the second-level cache.
inline constexpr uint32_t kWireDepthFrames = 128;

/// The settings of a wire.
struct WireConfig {
  uint32_t depth_frames = kWireDepthFrames;  ///< The depth of each ring, exactly.
  /// Queues of each end: the number of workers. Worker i drives queue i at both ends.
  uint16_t queues = 1;
};

/// Makes a wire. Frames must come from pools that outlive both ends.
absl::StatusOr<Wire> MakeWire(const WireEndConfig& first, const WireEndConfig& second,
                              const WireConfig& config = {});

}  // namespace uroce::drivers
