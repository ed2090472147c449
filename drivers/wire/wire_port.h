// SPDX-License-Identifier: Apache-2.0
// The in-process wire: two ports joined by bounded rings of frames. Nothing is copied or lost; a
// full ring holds the sender back. With several queues there is a ring from each queue to each, and
// the sender puts a frame where its queue pair lives, so that frames cross cores once.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "drivers/port.h"

namespace uroce::drivers {

/// One end of a wire.
struct WireEndConfig {
  Mac mac{};
  uint32_t mtu_bytes = 9000;  ///< RoCE then uses path MTU 4096.
};

/// Both ends. One thread drives each queue; it may be the same one.
struct Wire {
  std::unique_ptr<Port> first;
  std::unique_ptr<Port> second;
};

/// Depth of each direction: enough for a burst on its way while the next is made, and little
/// enough that the frames in flight stay in the second-level cache.
inline constexpr uint32_t kWireDepthFrames = 128;

/// How a wire is made.
struct WireConfig {
  uint32_t depth_frames = kWireDepthFrames;  ///< Of each ring, exactly.
  /// Of each end: as many as there are workers, and queue i belongs to worker i at both ends.
  uint16_t queues = 1;
};

/// Frames must come from pools that outlive both ends.
absl::StatusOr<Wire> MakeWire(const WireEndConfig& first, const WireEndConfig& second,
                              const WireConfig& config = {});

/// A locally administered unicast address that depends on `name` and `index` alone.
Mac LocalMac(std::string_view name, uint32_t index);

}  // namespace uroce::drivers
