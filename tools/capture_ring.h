// SPDX-License-Identifier: Apache-2.0
// The reading end of a capture's byte ring in memory shared with the daemon.
#pragma once

#include <cstdint>
#include <vector>

#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::tools {

/// One frame as it was seen at a device. `bytes` is a copy, valid until the next Take.
struct CapturedFrame {
  uint64_t time_ns = 0;  ///< Since 1970.
  uint32_t interface_index = 0;
  uint32_t direction = 0;  ///< UROCE_CAPTURE_INBOUND or _OUTBOUND.
  uint32_t wire_length_bytes = 0;
  std::vector<uint8_t> bytes;
};

enum class [[nodiscard]] CaptureTakeResult : uint8_t{
    kOk, kEmpty,
    kCorrupt,  ///< The daemon's words make no sense; the capture cannot go on.
};

/// Takes records in order. All that the daemon wrote is read once, checked, then used: a record
/// outside the ring or the published bytes is kCorrupt, never followed.
class CaptureRing {
 public:
  /// `ring_bytes` is a power of two; `interface_count` bounds the records' interface_index.
  CaptureRing(uroce_capture_page* page, const uint8_t* ring, uint64_t ring_bytes,
              uint32_t interface_count);

  CaptureTakeResult Take(CapturedFrame& frame);
  /// Frames that the daemon found no room for, so far.
  uint64_t lost_frames() const;

 private:
  void Consume(uint64_t bytes);

  uroce_capture_page* page_;
  const uint8_t* ring_;
  uint64_t ring_bytes_;
  uint32_t interface_count_;
  uint64_t consumed_ = 0;
};

}  // namespace uroce::tools
