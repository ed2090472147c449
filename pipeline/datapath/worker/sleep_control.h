// SPDX-License-Identifier: Apache-2.0
// How a worker sleeps without missing a wake-up: it announces the sleep, looks again, and then
// sleeps. Also finds the parked programs that have rung.
#pragma once

#include <atomic>
#include <span>

#include "pipeline/datapath/queue/session_list.h"
#include "pipeline/datapath/thread/sleeper.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// The worker's thread, but for Wake.
class SleepControl {
 public:
  SleepControl(SessionList& sessions, const TurnTime& time) : sessions_(sessions), time_(time) {}

  /// What wakes the worker.
  Sleeper& sleeper() { return sleeper_; }
  /// Ends the worker's sleep, where it sleeps. Any thread, after it has put something where the
  /// worker looks each turn.
  void Wake();

  /// Tells programs and other threads that the worker is about to sleep. False: a program has rung
  /// or a copy is done meanwhile. What else there may be to do is looked for afterwards.
  [[nodiscard]] bool Announce();
  void Sleep(Nanos limit);
  /// After Announce, whether the worker has slept or not.
  void AnnounceAwake();

  /// Parks programs that are still, and takes back those that have rung since. Once per turn.
  void TendPrograms() {
    sessions_.ParkIdle(time_.now());
    if (time_.now() >= look_at_ && sessions_.any_parked()) LookForParked();
  }

 private:
  void LookForParked();
  void TakeBack(std::span<const int> written_fds);

  SessionList& sessions_;
  const TurnTime& time_;
  Sleeper sleeper_;
  std::atomic<bool> asleep_{false};
  Nanos look_at_{0};  // When to look next for parked programs that have come back.
};

}  // namespace uroce::datapath
