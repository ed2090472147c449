// SPDX-License-Identifier: Apache-2.0
// One direction of a cable: the queues at its head, and the frames on it.
#pragma once

#include <cstdint>

#include "pipeline/fabric/fabric_config.h"
#include "pipeline/fabric/frame_store.h"

namespace uroce::fabric {

/// The counters of a link. All are cumulative.
struct LinkCounters {
  uint64_t frames = 0;  ///< Sent.
  uint64_t bytes = 0;   ///< Sent, without FCS.
  uint64_t marks = 0;
  uint64_t early_drops = 0;  ///< Dropped by RED: not ECN capable.
  uint64_t tail_drops = 0;   ///< The buffer was full.
  uint64_t down_drops = 0;   ///< The link was down, or went down.
  uint64_t pauses = 0;       ///< How often the link was paused.
  Nanos paused;              ///< The time in past pauses, without the present one.
};

/// The state of a link. Only the fabric, its owner, changes it.
struct Link {
  static constexpr uint32_t kHost = UINT32_MAX;
  // ---- ends ----
  uint32_t from_switch = kHost;  ///< kHost: a host sends.
  uint32_t to_switch = kHost;
  uint32_t host = 0;  ///< The number of the host, if one end is a host.
  // ---- behaviour ----
  LinkConfig config;
  bool is_up = true;
  // ---- state ----
  FrameList control;
  FrameList data;
  FrameList flight;
  Nanos free_at;          ///< The line is in use until this time.
  uint64_t fraction = 0;  ///< Part of a ns by which `free_at` is early, in units of 1 / rate.
  Nanos last_arrival;
  bool is_paused = false;  ///< The other end has paused `data`, not `control`.
  Nanos paused_at;
  uint64_t share_bytes = 0;       ///< Data in the switch at its end that arrived by it.
  bool is_pausing = false;        ///< That switch has sent a pause, and no resumption since.
  uint32_t pauses_in_flight = 0;  ///< The PFC frames among `flight`.
  uint64_t peak_queue_bytes = 0;
  LinkCounters counters;

  uint64_t queue_bytes() const { return control.bytes() + data.bytes(); }
  /// The queue that sends next, or null when none may send.
  FrameList* NextQueue() {
    if (!control.empty()) return &control;
    return data.empty() || is_paused ? nullptr : &data;
  }
  /// Occupies the line for `wire_bytes` from `start` on. Returns when the last bit has left.
  /// Rounding errors do not add up, at any rate.
  Nanos Occupy(uint32_t wire_bytes, Nanos start) {
    constexpr uint64_t kNanosPerSecond = 1'000'000'000;
    const uint64_t units = uint64_t{wire_bytes} * 8 * kNanosPerSecond + fraction;
    fraction = units % config.rate_bps;
    free_at = start + Nanos(static_cast<int64_t>(units / config.rate_bps));
    return free_at;
  }
};

}  // namespace uroce::fabric
