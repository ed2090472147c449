// SPDX-License-Identifier: Apache-2.0
// One captured frame, as capture writers take it.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::capture {

/// One frame as a device received or sent it. `bytes` points into memory of the caller, and may be
/// shorter than the frame on the wire.
struct CapturedFrame {
  uint64_t time_ns = 0;  ///< Nanoseconds since 1970.
  uint32_t interface_index = 0;
  uint32_t direction = 0;  ///< UROCE_CAPTURE_INBOUND or _OUTBOUND.
  uint32_t wire_length_bytes = 0;
  uroce_capture_note note{};
  std::span<const uint8_t> bytes;
};

}  // namespace uroce::capture
