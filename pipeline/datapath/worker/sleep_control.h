// SPDX-License-Identifier: Apache-2.0
// Lets a worker sleep without missing a wake-up: it announces the sleep, looks again, and then
// sleeps. Also finds the parked programs that have rung.
#pragma once

#include <atomic>
#include <span>

#include "pipeline/datapath/queue/session_list.h"
#include "pipeline/datapath/thread/sleeper.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// Used by the worker's thread, except Wake.
class SleepControl {
 public:
  SleepControl(SessionList& sessions, const TurnTime& time) : sessions_(sessions), time_(time) {}

  /// The sleeper that wakes the worker.
  Sleeper& sleeper() { return sleeper_; }
  /// Ends the worker's sleep, if it sleeps. Any thread calls it, after it has put something where
  /// the worker looks each turn.
  void Wake();

  /// Tells programs and other threads that the worker is about to sleep. False: a program has rung
  /// or a copy is done meanwhile. The caller checks for other work afterwards.
  [[nodiscard]] bool Announce();
  void Sleep(Nanos limit);
  /// Called after Announce, whether the worker has slept or not.
  void AnnounceAwake();

  /// Parks idle programs, and takes back parked ones that have rung since. Called once per turn.
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
