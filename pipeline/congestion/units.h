// SPDX-License-Identifier: Apache-2.0
// Units of the parameters of congestion control.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::congestion {

inline constexpr double kMegabit = 1e6;
/// Bytes in which rpg_byte_reset counts.
inline constexpr uint32_t kByteUnit = 64;
/// Events of timers that are played at once: who was idle for longer finds them as they then are.
inline constexpr int kMaxEvents = 8192;

constexpr Nanos Micros(uint32_t count) { return Nanos(int64_t{count} * 1000); }

/// Preamble, start of frame, FCS and the gap between frames: what a frame takes of the wire besides
/// its bytes.
inline constexpr uint32_t kFrameOverheadBytes = 8 + 4 + 12;

}  // namespace uroce::congestion
