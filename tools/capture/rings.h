// SPDX-License-Identifier: Apache-2.0
// The rings of a capture, one for each worker, as one sequence of frames.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tools/capture/ring.h"

namespace uroce::tools {

/// Takes frames in order of time, as far as no worker can still have an earlier one. One ring is in
/// order by itself: its frames can be taken at once.
class CaptureRings {
 public:
  /// How far a worker that says nothing is behind at most: a sleeping one is not.
  static constexpr uint64_t kPatienceNs = 20'000'000;

  /// At least one ring.
  explicit CaptureRings(const std::vector<CaptureRing>& rings);

  /// Asks how far the workers are; frames from before that can be taken. `now_ns` since 1970.
  void LookAgain(uint64_t now_ns);
  /// The daemon has ended the capture: all that is left can be taken.
  void LookAtRest() { end_ns_ = kNoEnd; }

  CaptureTakeResult Take(capture::CapturedFrame& frame);
  /// Gives the room of all frames taken so far back to the daemon.
  void Release();
  /// Bytes taken and not released.
  uint64_t held_bytes() const;
  /// Frames of an interface that the daemon found no room for, so far.
  uroce_capture_lost lost_frames(uint32_t interface_index) const;

 private:
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();
  struct Source {
    CaptureRing ring;
    capture::CapturedFrame next{};
    bool has_next = false;
  };
  /// Has `source` know its next frame, if it has one.
  CaptureTakeResult Look(Source& source) const;

  std::vector<Source> sources_;
  uint64_t end_ns_ = 0;  ///< No worker will publish a frame from before this time.
};

}  // namespace uroce::tools
