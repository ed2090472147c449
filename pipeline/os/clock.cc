// SPDX-License-Identifier: Apache-2.0
// The clock of a worker: the processor's counter of ticks, kept to the system's clock. Also how
// long a thread has waited for a CPU.
#include "pipeline/os/clock.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string_view>

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

// ---- the clock: calibration of the counter ----

namespace {

constexpr timespec kCalibration{.tv_sec = 0, .tv_nsec = 10'000'000};
// Of several readings the one during which the least time passed: the thread may lose its CPU.
constexpr int kReadings = 4;
// Two readings of the same offset differ by less.
constexpr int64_t kReadingNoiseNs = 10'000;

}  // namespace

Clock::Clock()
    : has_counter_(cpu::CounterIsSteady()), time_(Calibrated()), wall_offset_(ReadWallOffset()) {}

Nanos Clock::SystemNow(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Nanos(time.tv_sec * 1'000'000'000 + time.tv_nsec);
}

CounterTime::Reading Clock::Read() {
  CounterTime::Reading best;
  uint64_t shortest = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t before = cpu::ReadCounter();
    const Nanos time = SystemNow(CLOCK_MONOTONIC);
    const uint64_t taken = cpu::ReadCounter() - before;
    if (taken >= shortest) continue;
    shortest = taken;
    best = {before + taken / 2, time};
  }
  return best;
}

CounterTime Clock::Calibrated() {
  const CounterTime::Reading first = Read();
  nanosleep(&kCalibration, nullptr);
  return {first, Read()};
}

// CLOCK_REALTIME is CLOCK_MONOTONIC with an offset that changes when the time is set: adjtimex(2)
// slows both down alike.
Nanos Clock::ReadWallOffset() {
  Nanos offset{0};
  Nanos shortest = kNever;
  for (int i = 0; i < kReadings; ++i) {
    const Nanos before = SystemNow(CLOCK_MONOTONIC);
    const Nanos wall = SystemNow(CLOCK_REALTIME);
    const Nanos taken = SystemNow(CLOCK_MONOTONIC) - before;
    if (taken >= shortest) continue;
    shortest = taken;
    offset = wall - before - Nanos(taken.count() / 2);
  }
  return offset;
}

void Clock::Tend() {
  if (has_counter_) time_.Correct(Read());
  const Nanos offset = ReadWallOffset();
  if (std::abs((offset - wall_offset_).count()) > kReadingNoiseNs) wall_offset_ = offset;
}

Nanos Clock::Wall() {
  const Nanos wall = Now() + wall_offset_;
  if (wall < last_wall_ && last_wall_ - wall < kMostHeld) return last_wall_;
  last_wall_ = wall;
  return wall;
}

RunDelay::~RunDelay() {
  if (fd_ >= 0) close(fd_);
}

void RunDelay::Open() {
  if (fd_ >= 0) close(fd_);
  fd_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

Nanos RunDelay::Read() const {
  char text[64];
  const ssize_t length = fd_ < 0 ? -1 : pread(fd_, text, sizeof text, 0);
  if (length <= 0) return Nanos(0);
  // The time on a CPU, the time of waiting for one, how often it ran.
  const std::string_view times(text, static_cast<size_t>(length));
  const size_t second = times.find(' ');
  int64_t count = 0;
  if (second == times.npos) return Nanos(0);
  std::from_chars(times.data() + second + 1, times.data() + times.size(), count);
  return Nanos(count);
}

Nanos ThreadCpuTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

int64_t ThreadSleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace uroce
