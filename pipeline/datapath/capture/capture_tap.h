// SPDX-License-Identifier: Apache-2.0
// Where a worker leaves copies of frames for a capture: a byte ring in memory shared with the tool.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/capture/note.h"
#include "pipeline/datapath/capture/capture_record.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::datapath {
/// What a capture takes.
struct TapConfig {
  uint32_t snap_bytes = 65535;         ///< Of each frame at most.
  uint32_t device_index = UROCE_NONE;  ///< Frames of one device alone, or UROCE_NONE.
  uint32_t only = 0;                   ///< UROCE_CAPTURE_DROPPED and others; 0 for all frames.
};

/// One worker's part of a capture. The worker writes; the tool's `consumed` is checked on every
/// use: an impossible value only loses packets. Layout: uroce_capture.h. Written past the cache,
/// and published a turn later: see Publish.
class CaptureTap {
 public:
  /// `ring` is aligned to 64 bytes and has `ring_bytes`, a power of two. `page` starts as zeros.
  CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes, const TapConfig& config);
  /// Copies one frame, or counts it as lost; the tool sees the copy after the next Publish.
  /// `direction` is UROCE_CAPTURE_*; `time` since 1970. `device_index` < UROCE_MAX_DEVICES.
  void Add(uint32_t device_index, uint16_t direction, const uint8_t* frame, uint32_t length_bytes,
           Nanos time, const uroce_capture_note& note);
  /// Shows the tool what was added, and that nothing from before `reached` comes any more. Waits
  /// until the lines are in memory: best called when they had time to get there.
  void Publish(Nanos reached);

 private:
  /// Looks how far the tool is, and passes over the ring's end where a record of `size` bytes would
  /// not fit before it. False: no room.
  bool MakeRoom(uint64_t size);
  void CountLost(uint32_t device_index, uint16_t direction);

  uroce_capture_page* page_;
  uint8_t* ring_;
  uint64_t ring_bytes_;
  TapConfig config_;
  uint64_t produced_ = 0;
  uint64_t published_ = 0;
  /// Up to here records fit one after the other, as far as known: the tool's line is looked at only
  /// when a record would end behind it.
  uint64_t room_end_ = 0;
  std::array<uroce_capture_lost, UROCE_MAX_DEVICES> lost_{};
};

inline void CaptureTap::Add(uint32_t device_index, uint16_t direction, const uint8_t* frame,
                            uint32_t length_bytes, Nanos time, const uroce_capture_note& note) {
  if (config_.device_index != UROCE_NONE && config_.device_index != device_index) return;
  if (config_.only != 0 && (capture::KindsOf(note) & config_.only) == 0) return;
  const uint32_t captured = std::min(length_bytes, config_.snap_bytes);
  const uint64_t size = RecordBytes(captured);
  if (produced_ + size > room_end_ && !MakeRoom(size)) return CountLost(device_index, direction);
  uint8_t* const place = ring_ + (produced_ & (ring_bytes_ - 1));
  const uroce_capture_record head{.size = static_cast<uint32_t>(size),
                                  .captured_length = captured,
                                  .wire_length = length_bytes,
                                  .interface_index = static_cast<uint16_t>(device_index),
                                  .direction = direction,
                                  .time_ns = static_cast<uint64_t>(time.count())};
  StreamHead(place, head, note);
  StreamFrame(place + sizeof(head), frame, captured);
  produced_ += size;
}

}  // namespace uroce::datapath
