// SPDX-License-Identifier: Apache-2.0
// The reading end of one worker's byte ring of a capture, in memory shared with the daemon.
#pragma once

#include <cstdint>

#include "pipeline/capture/frame.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::tools {

enum class [[nodiscard]] CaptureTakeResult : uint8_t{
    kOk, kEmpty,
    kCorrupt,  ///< The daemon's words make no sense; the capture cannot go on.
};

/// Takes records in order. The header of a record is read once, checked, then used: a record
/// outside the ring or the published bytes is kCorrupt, never followed. The bytes of a frame are
/// not copied: they lie in the ring until the next Release.
class CaptureRing {
 public:
  /// `ring_bytes` is a power of two; `interface_count` bounds the records' interface_index.
  CaptureRing(uroce_capture_page* page, const uint8_t* ring, uint64_t ring_bytes,
              uint32_t interface_count);

  CaptureTakeResult Take(capture::CapturedFrame& frame);
  /// The next frame, which stays the next one until Pass.
  CaptureTakeResult Look(capture::CapturedFrame& frame);
  /// Takes the frame of the last Look, which was kOk.
  void Pass() { taken_ += looked_bytes_; }
  /// Gives the room of all frames taken so far back to the daemon.
  void Release();
  /// Bytes taken and not released.
  uint64_t held_bytes() const { return taken_ - released_; }
  /// Nothing from before this time, since 1970, comes any more but what can be taken after the
  /// call.
  uint64_t reached_ns() const;
  /// Frames of an interface that the daemon found no room for, so far.
  uroce_capture_lost lost_frames(uint32_t interface_index) const;

 private:
  uroce_capture_page* page_;
  const uint8_t* ring_;
  uint64_t ring_bytes_;
  uint32_t interface_count_;
  uint64_t taken_ = 0;
  uint64_t released_ = 0;
  uint64_t looked_bytes_ = 0;
};

}  // namespace uroce::tools
