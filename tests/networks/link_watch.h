// SPDX-License-Identifier: Apache-2.0
// What a link has carried and lost since a moment.
#pragma once

#include "pipeline/fabric/fabric.h"

namespace uroce::networks {

/// Counts from the construction on. `link` outlives it.
class LinkWatch {
 public:
  LinkWatch(const fabric::Link& link, Nanos now)
      : link_(link), before_(link.counters), began_(now) {}
  /// Part of the line in use, by all bits on the wire.
  double use(Nanos now) const {
    const fabric::LinkCounters& counters = link_.counters;
    const uint64_t frames = counters.frames - before_.frames;
    constexpr uint64_t kOverhead = fabric::WireBytes(1000) - 1000;
    const uint64_t bytes = counters.bytes - before_.bytes + frames * kOverhead;
    return static_cast<double>(bytes) * 8 / Capacity(now);
  }
  /// Part of the frames to the link that were dropped.
  double lost() const {
    const uint64_t lost = Drops(link_.counters) - Drops(before_);
    const uint64_t frames = link_.counters.frames - before_.frames + lost;
    return frames == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(frames);
  }
  uint64_t pauses() const { return link_.counters.pauses - before_.pauses; }
  /// `bytes` of payload as a part of the line's bits.
  double ShareOf(uint64_t bytes, Nanos now) const {
    return static_cast<double>(bytes) * 8 / Capacity(now);
  }

 private:
  static uint64_t Drops(const fabric::LinkCounters& counters) {
    return counters.early_drops + counters.tail_drops;
  }
  double Capacity(Nanos now) const {
    return static_cast<double>((now - began_).count()) / 1e9 *
           static_cast<double>(link_.config.rate_bps);
  }

  const fabric::Link& link_;
  const fabric::LinkCounters before_;
  const Nanos began_;
};

}  // namespace uroce::networks
