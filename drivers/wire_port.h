// SPDX-License-Identifier: Apache-2.0
// The in-process wire: two ports joined by bounded rings of frames. Nothing is copied or lost; a
// full ring holds the sender back.
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

/// Both ends. One thread drives each; it may be the same one.
struct Wire {
  std::unique_ptr<Port> first;
  std::unique_ptr<Port> second;
};

/// Depth of each direction: enough for a burst on its way while the next is made, and little
/// enough that the frames in flight stay in the second-level cache.
inline constexpr uint32_t kWireDepthFrames = 128;
inline constexpr uint32_t kMaxWireDepthFrames = 32768;

/// A wire whose rings hold exactly `depth_frames` each. Frames must come from pools that
/// outlive both ends. After InitEal.
absl::StatusOr<Wire> MakeWire(const WireEndConfig& first, const WireEndConfig& second,
                              uint32_t depth_frames = kWireDepthFrames);

/// A locally administered unicast address that depends on `name` and `index` alone.
Mac LocalMac(std::string_view name, uint32_t index);

}  // namespace uroce::drivers
