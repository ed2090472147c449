// SPDX-License-Identifier: Apache-2.0
// Where a worker leaves copies of frames for a capture: a byte ring in memory shared with the tool.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::datapath {

/// What a capture takes.
struct TapConfig {
  uint32_t snap_bytes = 65535;         ///< Of each frame at most.
  uint32_t device_index = UROCE_NONE;  ///< Frames of one device alone, or UROCE_NONE.
  uint32_t only = 0;                   ///< UROCE_CAPTURE_DROPPED and others; 0 for all frames.
};

/// One capture. The worker writes; the tool's `consumed` is checked on every use: an impossible
/// value only loses packets. Layout: uroce_abi.h. A full ring costs a comparison per frame.
class CaptureTap {
 public:
  /// `ring` is aligned to 64 bytes and has `ring_bytes`, a power of two. `page` starts as zeros.
  CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes, const TapConfig& config);
  /// Copies one frame, or counts it as lost; the tool sees the copy after the next Publish.
  /// `direction` is UROCE_CAPTURE_*; `time` since 1970. `device_index` < UROCE_MAX_DEVICES.
  void Add(uint32_t device_index, uint16_t direction, const uint8_t* frame, uint32_t length_bytes,
           Nanos time, const uroce_capture_note& note);
  void Publish();

 private:
  /// Where a record of `size` bytes goes, or null. Puts a filler before the ring's end if needed.
  uint8_t* Reserve(uint64_t size);
  bool HasRoom(uint64_t size);
  void CountLost(uint32_t device_index, uint16_t direction);

  uroce_capture_page* page_;
  uint8_t* ring_;
  uint64_t ring_bytes_;
  TapConfig config_;
  uint64_t produced_ = 0;
  uint64_t published_ = 0;
  uint64_t consumed_ =
      0;  ///< As last read: the tool's line is looked at only when this is too low.
  std::array<uroce_capture_lost, UROCE_MAX_DEVICES> lost_{};
};

}  // namespace uroce::datapath
