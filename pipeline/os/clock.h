// SPDX-License-Identifier: Apache-2.0
// The clock of a worker: the processor's counter of ticks, kept to the system's clock. Also how
// long a thread has waited for a CPU.
#pragma once

#include <cstdint>
#include <ctime>

#include "pipeline/base/cpu.h"
#include "pipeline/base/types.h"

namespace uroce {

/// Nanoseconds by a fast counter whose rate is neither known nor constant. Readings of a slower
/// clock correct it: the rate is that of the last interval between two readings, and what the time
/// was off is made up for within kSlew. It never goes back while the counter does not. Pure.
class CounterTime {
 public:
  static constexpr Nanos kSlew{1'000'000'000};
  /// What is behind by more is set at once; what is ahead waits, at half the rate at least.
  static constexpr int64_t kMostSlewedNs = 500'000'000;

  /// A look at both clocks.
  struct Reading {
    uint64_t ticks = 0;
    Nanos time{0};
  };

  /// `second` is later than `first` by both clocks.
  CounterTime(Reading first, Reading second);
  /// The time at `ticks`, which may be a little before those of the last reading: the counters of
  /// two CPUs differ.
  Nanos At(uint64_t ticks) const {
    const auto elapsed = static_cast<int64_t>(ticks - base_.ticks);
    const int64_t slewed = elapsed < slew_ticks_ ? elapsed : slew_ticks_;
    return base_.time + Nanos(Scaled(elapsed, rate_) + Scaled(slewed, slew_rate_));
  }
  /// How long `ticks` take.
  Nanos SpanOf(uint64_t ticks) const { return Nanos(Scaled(static_cast<int64_t>(ticks), rate_)); }
  /// How many ticks fill `span`, which is not negative.
  uint64_t TicksIn(Nanos span) const {
    return static_cast<uint64_t>((static_cast<Wide>(span.count()) << kShift) / rate_);
  }
  /// Follows the other clock. A reading that is not later than the one before changes nothing.
  void Correct(Reading reading);

 private:
  __extension__ using Wide = __int128;
  static constexpr int kShift = 40;
  static int64_t Scaled(int64_t ticks, int64_t rate) {
    return static_cast<int64_t>(static_cast<Wide>(ticks) * rate >> kShift);
  }
  static int64_t RateOf(Nanos time, int64_t ticks);

  Reading last_;  ///< The reading itself.
  Reading base_;  ///< Where the line below begins.
  int64_t rate_;  ///< Nanoseconds a tick, shifted by kShift.
  int64_t slew_ticks_ = 0;
  int64_t slew_rate_ = 0;  ///< Added to the rate for slew_ticks_.
};

/// The clock of a worker: nanoseconds of CLOCK_MONOTONIC from the processor's counter, which Tend
/// keeps to it. Uses CLOCK_MONOTONIC itself where the counter's rate is not constant. One thread.
class Clock {
 public:
  /// How often Tend is to be called.
  static constexpr Nanos kTendInterval{1'000'000'000};

  /// The first calibration takes about 10 ms.
  Clock();
  /// Never goes back.
  Nanos Now() const {
    return has_counter_ ? time_.At(cpu::ReadCounter()) : SystemNow(CLOCK_MONOTONIC);
  }
  /// Ticks of the counter, or nanoseconds where there is none: a shorter look than Now, for spans.
  uint64_t Ticks() const {
    return has_counter_ ? cpu::ReadCounter()
                        : static_cast<uint64_t>(SystemNow(CLOCK_MONOTONIC).count());
  }
  Nanos SpanOf(uint64_t ticks) const {
    return has_counter_ ? time_.SpanOf(ticks) : Nanos(static_cast<int64_t>(ticks));
  }
  uint64_t TicksIn(Nanos span) const {
    return has_counter_ ? time_.TicksIn(span) : static_cast<uint64_t>(span.count());
  }
  /// The time since 1970. Never goes back, but where the system's clock is set back by
  /// kMostHeld or more; then it follows within kTendInterval, as it follows other changes.
  Nanos Wall();
  /// Reads the system's clocks.
  void Tend();

 private:
  static constexpr Nanos kMostHeld{1'000'000'000};
  static Nanos SystemNow(clockid_t clock);
  static CounterTime::Reading Read();
  /// Takes about 10 ms.
  static CounterTime Calibrated();
  static Nanos ReadWallOffset();

  const bool has_counter_;
  CounterTime time_;
  Nanos wall_offset_;
  Nanos last_wall_{0};
};

// How long a thread was ready to run, but had no CPU.

/// Reads /proc/thread-self/schedstat, which takes a microsecond. Where the kernel has no such file,
/// every time is 0. Used by one thread, which is also the one that calls Open.
class RunDelay {
 public:
  RunDelay() = default;
  ~RunDelay();
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  /// From now on the times are those of the calling thread.
  void Open();
  /// The time in which the thread has waited for a CPU since it began.
  Nanos Read() const;

 private:
  int fd_ = -1;
};

/// How long the calling thread has been on a CPU since it began. Where the kernel of a virtual
/// machine knows when the host had no CPU for it, that time is left out.
Nanos ThreadCpuTime();
/// How often the calling thread has slept since it began, or has waited for a lock of the kernel.
int64_t ThreadSleeps();

}  // namespace uroce
