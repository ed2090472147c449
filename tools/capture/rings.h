// SPDX-License-Identifier: Apache-2.0
// Merges the rings of a capture, one for each worker, into one sequence of frames.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tools/capture/ring.h"

namespace uroce::tools {

/// Takes frames in order of time, up to the time before which no worker can add a frame any more. A
/// single ring is always in order: its frames can be taken at once.
class CaptureRings {
 public:
  /// The longest time that a silent worker may be behind: a sleeping worker is not behind.
  static constexpr uint64_t kPatienceNs = 20'000'000;

  /// At least one ring.
  explicit CaptureRings(const std::vector<CaptureRing>& rings);

  /// Reads how far the workers are; frames from before that time can be taken. `now_ns` since 1970.
  void LookAgain(uint64_t now_ns);
  /// The daemon has ended the capture: all remaining frames can be taken.
  void LookAtRest() { end_ns_ = kNoEnd; }

  CaptureTakeResult Take(capture::CapturedFrame& frame);
  /// Gives the room of all frames taken so far back to the daemon.
  void Release();
  /// Bytes taken and not yet released.
  uint64_t held_bytes() const;
  /// How many frames of an interface the daemon has dropped so far, because the rings had no room.
  uroce_capture_lost lost_frames(uint32_t interface_index) const;

 private:
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();
  struct Source {
    CaptureRing ring;
    capture::CapturedFrame next{};
    bool has_next = false;
  };
  /// Makes `source` look at its next frame, if it has one.
  CaptureTakeResult Look(Source& source) const;

  std::vector<Source> sources_;
  uint64_t end_ns_ = 0;  ///< No worker will publish a frame from before this time.
};

}  // namespace uroce::tools
