// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/sleep_control.h"

#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {

void SleepControl::Wake() {
  rings::FullFence();
  if (asleep_.load(std::memory_order_relaxed)) sleeper_.Wake();
}

bool SleepControl::Announce() {
  asleep_.store(true, std::memory_order_relaxed);
  rings::FullFence();
  return sessions_.AnnounceSleep();
}

void SleepControl::Sleep(Nanos limit) { TakeBack(sleeper_.Sleep(limit)); }

void SleepControl::AnnounceAwake() {
  asleep_.store(false, std::memory_order_relaxed);
  sessions_.AnnounceAwake();
}

void SleepControl::LookForParked() {
  const std::span<const int> written = sleeper_.Look();
  TakeBack(written);
  // When Look returns as many as it can, there may be more.
  const bool is_whole = written.size() != Sleeper::kMaxEvents;
  look_at_ = is_whole ? time_.now() + SessionList::kLookInterval : time_.now();
}

void SleepControl::TakeBack(std::span<const int> written_fds) {
  if (written_fds.empty()) return;
  const Nanos time = time_.ReadClock();  // The time of the turn is from before the sleep.
  for (const int fd : written_fds) sessions_.OnEvent(fd, time);
}

}  // namespace uroce::datapath
