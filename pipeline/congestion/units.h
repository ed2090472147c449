// SPDX-License-Identifier: Apache-2.0
// Units and constants of congestion control.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::congestion {

inline constexpr double kMegabit = 1e6;
/// The unit of rpg_byte_reset, in bytes.
inline constexpr uint32_t kByteUnit = 64;
/// The most timer events that one Advance applies. After a longer pause the others are skipped.
inline constexpr int kMaxEvents = 8192;

constexpr Nanos Micros(uint32_t count) { return Nanos(int64_t{count} * 1000); }

/// The bytes that a frame takes on the wire besides its own: preamble, start of frame, FCS and the
/// gap between frames.
inline constexpr uint32_t kFrameOverheadBytes = 8 + 4 + 12;

}  // namespace uroce::congestion
