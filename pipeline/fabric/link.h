// SPDX-License-Identifier: Apache-2.0
// One direction of a link: the queues at its head, and what is on its way.
#pragma once

#include <cstdint>

#include "pipeline/fabric/fabric_config.h"
#include "pipeline/fabric/frame_store.h"

namespace uroce::fabric {

/// Cumulative.
struct LinkCounters {
  uint64_t frames = 0;  ///< Sent.
  uint64_t bytes = 0;   ///< Of them, without FCS.
  uint64_t marks = 0;
  uint64_t early_drops = 0;  ///< By RED: not ECN capable.
  uint64_t tail_drops = 0;   ///< The buffer was full.
  uint64_t down_drops = 0;   ///< The link was, or went, down.
  uint64_t pauses = 0;       ///< How often it was paused.
  Nanos paused;              ///< How long, but for the present pause.
};

/// A value of the fabric, which alone changes it.
struct Link {
  static constexpr uint32_t kHost = UINT32_MAX;
  // ---- ends ----
  uint32_t from_switch = kHost;  ///< Or a host's.
  uint32_t to_switch = kHost;
  uint32_t host = 0;  ///< Where one end is a host's, which.
  // ---- behaviour ----
  LinkConfig config;
  bool is_up = true;
  // ---- state ----
  FrameList control;
  FrameList data;
  FrameList flight;
  Nanos free_at;          ///< The line is in use until then.
  uint64_t fraction = 0;  ///< Of a nanosecond that `free_at` lacks, in units of 1 / rate.
  Nanos last_arrival;
  bool is_paused = false;  ///< By the other end, and `control` is not.
  Nanos paused_at;
  uint64_t share_bytes = 0;       ///< Of `data` in the switch at its end that came this way.
  bool is_pausing = false;        ///< That switch has paused it, as far as it knows.
  uint32_t pauses_in_flight = 0;  ///< Of `flight`, those that tell the other end.
  uint64_t peak_queue_bytes = 0;
  LinkCounters counters;

  uint64_t queue_bytes() const { return control.bytes() + data.bytes(); }
  /// The queue that sends next, or null.
  FrameList* NextQueue() {
    if (!control.empty()) return &control;
    return data.empty() || is_paused ? nullptr : &data;
  }
  /// Uses the line for so many bytes from `start` on; returns when their last bit has left. Exact
  /// on average at every rate.
  Nanos Occupy(uint32_t wire_bytes, Nanos start) {
    constexpr uint64_t kNanosPerSecond = 1'000'000'000;
    const uint64_t units = uint64_t{wire_bytes} * 8 * kNanosPerSecond + fraction;
    fraction = units % config.rate_bps;
    free_at = start + Nanos(static_cast<int64_t>(units / config.rate_bps));
    return free_at;
  }
};

}  // namespace uroce::fabric
