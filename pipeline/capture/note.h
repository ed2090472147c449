// SPDX-License-Identifier: Apache-2.0
// Kinds of frames that somebody who looks for trouble asks for.
#pragma once

#include <cstdint>

#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::capture {

/// Bits UROCE_CAPTURE_DROPPED, _RETRANSMITTED and _MARKED of a frame with this note. A duplicate
/// that was answered again was not executed, and counts as dropped.
constexpr uint32_t KindsOf(const uroce_capture_note& note) {
  uint32_t kinds = (note.flags & UROCE_NOTE_MARKED) != 0 ? UROCE_CAPTURE_MARKED : 0;
  if (note.reason >= UROCE_REASON_RETRANSMITTED) {
    kinds |= UROCE_CAPTURE_RETRANSMITTED;
  } else if (note.reason != UROCE_REASON_NONE) {
    kinds |= UROCE_CAPTURE_DROPPED;
  }
  return kinds;
}

}  // namespace uroce::capture
