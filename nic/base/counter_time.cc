// SPDX-License-Identifier: Apache-2.0
#include "nic/base/counter_time.h"

#include <algorithm>

namespace uroce {

CounterTime::CounterTime(Reading first, Reading second)
    : last_(second),
      base_(second),
      rate_(RateOf(second.time - first.time, static_cast<int64_t>(second.ticks - first.ticks))) {}

int64_t CounterTime::RateOf(Nanos time, int64_t ticks) {
  return static_cast<int64_t>((static_cast<Wide>(time.count()) << kShift) / ticks);
}

void CounterTime::Correct(Reading reading) {
  const auto ticks = static_cast<int64_t>(reading.ticks - last_.ticks);
  if (ticks <= 0 || reading.time <= last_.time) return;
  const Nanos shown = At(reading.ticks);
  const int64_t behind_ns = (reading.time - shown).count();
  const bool jumps = behind_ns > kMostSlewedNs;
  const int64_t measured = RateOf(reading.time - last_.time, ticks);
  // One of the clocks stood still, as in a machine that was suspended: the interval says nothing.
  if (measured >= rate_ / 2 && measured / 2 <= rate_) rate_ = std::max<int64_t>(measured, 1);
  last_ = reading;
  base_ = {reading.ticks, jumps ? reading.time : shown};
  slew_ticks_ = static_cast<int64_t>((static_cast<Wide>(kSlew.count()) << kShift) / rate_);
  const Nanos made_up_for{jumps ? 0 : std::max(behind_ns, -kMostSlewedNs)};
  slew_rate_ = RateOf(made_up_for, slew_ticks_);
}

}  // namespace uroce
