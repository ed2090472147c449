// SPDX-License-Identifier: Apache-2.0
// Reads the byte rings of a capture, one for each worker, and merges them into one sequence of
// frames.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "pipeline/capture/pcapng_writer.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::tools {

// ---- The byte ring of one worker, in memory shared with the daemon ----

enum class [[nodiscard]] CaptureTakeResult : uint8_t{
    kOk, kEmpty,
    kCorrupt,  ///< The ring's contents are invalid; the capture cannot go on.
};

/// Takes records in order. The header of a record is read once, checked, and then used: a record
/// outside the ring or the published bytes is kCorrupt, and is not followed. The bytes of a frame
/// are not copied: they stay in the ring until the next Release.
class CaptureRing {
 public:
  /// `ring_bytes` is a power of two; `interface_count` bounds the records' interface_index.
  CaptureRing(uroce_capture_page* page, const uint8_t* ring, uint64_t ring_bytes,
              uint32_t interface_count);

  CaptureTakeResult Take(capture::CapturedFrame& frame);
  /// Looks at the next frame, which stays the next one until Pass.
  CaptureTakeResult Look(capture::CapturedFrame& frame);
  /// Takes the frame of the last Look, which was kOk.
  void Pass() { taken_ += looked_bytes_; }
  /// Gives the room of all frames taken so far back to the daemon.
  void Release();
  /// Bytes taken and not yet released.
  uint64_t held_bytes() const { return taken_ - released_; }
  /// A time since 1970. After the call, no frame from before that time is added: those that exist
  /// can be taken.
  uint64_t reached_ns() const;
  /// How many frames of an interface the daemon has dropped so far, because the ring had no room.
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

// ---- The rings of all workers ----

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
