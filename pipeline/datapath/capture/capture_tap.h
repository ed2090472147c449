// SPDX-License-Identifier: Apache-2.0
// The capture tap: a worker copies frames into a byte ring in memory that the capture tool shares.
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
/// Which frames a capture takes, and how much of each.
struct TapConfig {
  uint32_t snap_bytes = 65535;  ///< Bytes taken of each frame, at most.
  uint32_t only = 0;            ///< Mask of UROCE_CAPTURE_DROPPED and others; 0: all frames.
  /// For each device that is captured, at its index modulo UROCE_MAX_DEVICES: the interface that
  /// its frames are recorded of.
  static constexpr uint8_t kNotCaptured = 0xff;
  using Interfaces = std::array<uint8_t, UROCE_MAX_DEVICES>;
  Interfaces interfaces = Numbered();
  /// Device i is interface i.
  static constexpr Interfaces Numbered() {
    Interfaces interfaces{};
    for (uint8_t i = 0; i < UROCE_MAX_DEVICES; ++i) interfaces[i] = i;
    return interfaces;
  }
};

/// One worker's part of a capture; uroce_capture.h has the layout. The worker writes the ring past
/// the cache, and publishes records one turn later: see Publish. The worker checks the tool's
/// `consumed` on every use: an impossible value only loses packets.
class CaptureTap {
 public:
  /// `ring` is aligned to 64 bytes and has `ring_bytes`, a power of two. `page` starts as zeros.
  CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes, const TapConfig& config);
  /// Copies one frame, or counts it as lost. The tool sees the copy after the next Publish.
  /// `direction` is UROCE_CAPTURE_*. `time` counts from 1970.
  void Add(uint32_t device_index, uint16_t direction, const uint8_t* frame, uint32_t length_bytes,
           Nanos time, const uroce_capture_note& note);
  /// Shows the tool the added records, and promises that no record older than `reached` follows.
  /// Waits until the written lines are in memory: call it when they have had time to get there.
  void Publish(Nanos reached);
  /// Leaves out a device that was removed: another one may get its place.
  void Forget(uint32_t device_index) {
    config_.interfaces[device_index % UROCE_MAX_DEVICES] = TapConfig::kNotCaptured;
  }

 private:
  /// Reads how far the tool has consumed, and skips the ring's end where a record of `size` bytes
  /// would not fit before it. False: the ring has no room.
  bool MakeRoom(uint64_t size);
  void CountLost(uint32_t interface_index, uint16_t direction);

  uroce_capture_page* page_;
  uint8_t* ring_;
  uint64_t ring_bytes_;
  TapConfig config_;
  uint64_t produced_ = 0;
  uint64_t published_ = 0;
  /// Up to here records fit one after the other, as far as known. The tool's cache line is read
  /// only when a record would end behind this place.
  uint64_t room_end_ = 0;
  std::array<uroce_capture_lost, UROCE_MAX_DEVICES> lost_{};
};

inline void CaptureTap::Add(uint32_t device_index, uint16_t direction, const uint8_t* frame,
                            uint32_t length_bytes, Nanos time, const uroce_capture_note& note) {
  const uint8_t interface_index = config_.interfaces[device_index % UROCE_MAX_DEVICES];
  if (interface_index == TapConfig::kNotCaptured) return;
  if (config_.only != 0 && (capture::KindsOf(note) & config_.only) == 0) return;
  const uint32_t captured = std::min(length_bytes, config_.snap_bytes);
  const uint64_t size = RecordBytes(captured);
  if (produced_ + size > room_end_ && !MakeRoom(size)) return CountLost(interface_index, direction);
  uint8_t* const place = ring_ + (produced_ & (ring_bytes_ - 1));
  const uroce_capture_record head{.size = static_cast<uint32_t>(size),
                                  .captured_length = captured,
                                  .wire_length = length_bytes,
                                  .interface_index = interface_index,
                                  .direction = direction,
                                  .time_ns = static_cast<uint64_t>(time.count())};
  StreamHead(place, head, note);
  StreamFrame(place + sizeof(head), frame, captured);
  produced_ += size;
}

}  // namespace uroce::datapath
