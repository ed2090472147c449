// SPDX-License-Identifier: Apache-2.0
// Where a worker leaves copies of frames for a capture: a byte ring in memory shared with the tool.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::datapath {

/// One capture. The worker writes; the tool's `consumed` is checked on every use: an impossible
/// value only loses packets. Layout: uroce_abi.h.
class CaptureTap {
 public:
  /// `device_index` limits it to one device, or UROCE_NONE. `ring` has `ring_bytes` (power of two).
  CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes, uint32_t snap_bytes,
             uint32_t device_index);
  /// Copies one frame, or counts it as lost. `direction` is UROCE_CAPTURE_*; `time` since 1970.
  void Add(uint32_t device_index, uint16_t direction, const uint8_t* frame, uint32_t length_bytes,
           Nanos time);

 private:
  /// Where a record of `size` bytes goes, or null. Puts a filler before the ring's end if needed.
  uint8_t* Reserve(uint64_t size);

  uroce_capture_page* page_;
  uint8_t* ring_;
  uint64_t ring_bytes_;
  uint32_t snap_bytes_;
  uint32_t device_index_;
  uint64_t produced_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace uroce::datapath
