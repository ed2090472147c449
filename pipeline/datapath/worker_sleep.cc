// SPDX-License-Identifier: Apache-2.0
// Sleeping without missing anything: say that one is about to, look again, then sleep.
#include <sched.h>

#include <algorithm>

#include "pipeline/datapath/grace_periods.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/rings/doorbells.h"

namespace uroce::datapath {
namespace {

// How often keys are looked at that somebody may still be using.
constexpr Nanos kKeyWaitInterval{50'000};

}  // namespace

void Worker::Impl::Sleep() {
  if (AnnounceSleep()) {
    if (config.grace != nullptr) config.grace->Leave(config.index);
    const std::span<const int> written = sleeper.Sleep(SleepLimit());
    if (config.grace != nullptr) config.grace->Enter(config.index);
    TakeBack(written);
  } else {
    sched_yield();  // What it waits for may need this core: a full ring's other end.
  }
  AnnounceAwake();
}

bool Worker::Impl::AnnounceSleep() {
  asleep.store(true, std::memory_order_relaxed);
  rings::FullFence();
  bool quiet = sessions.AnnounceSleep();
  quiet &= !mailbox.HasRequest() && !stop.load(std::memory_order_relaxed) && !HasWork();
  for (const auto& port : ports) quiet &= port->BeforeSleep();
  return quiet;
}

void Worker::Impl::AnnounceAwake() {
  asleep.store(false, std::memory_order_relaxed);
  for (const auto& port : ports) port->AfterSleep();
  sessions.AnnounceAwake();
}

bool Worker::Impl::HasWork() const {
  if (postponed != 0 || !touched.empty() || !failing_rings.empty() || !handover.empty())
    return true;
  return std::ranges::any_of(ports, [](const auto& port) { return port->has_work(); });
}

Nanos Worker::Impl::SleepLimit() const {
  const Nanos time = clock.Now();
  Nanos wake_at = std::min(timers.NextDeadline(), record_retries.next());
  if (!key_waits.empty()) wake_at = std::min(wake_at, time + kKeyWaitInterval);
  if (!held.empty()) wake_at = std::min(wake_at, time + idle.PollInterval(time));
  for (const auto& port : ports) {
    wake_at = std::min(wake_at, port->NextDeadline());
    if (port->needs_polling()) wake_at = std::min(wake_at, time + idle.PollInterval(time));
  }
  return wake_at == kNever ? kNever : wake_at - time;
}

void Worker::Impl::TendSessions() {
  sessions.ParkIdle(now);
  if (now < look_at || !sessions.any_parked()) return;
  const std::span<const int> written = sleeper.Look();
  TakeBack(written);
  // As many as a look takes: there may be more.
  look_at = written.size() == Sleeper::kMaxEvents ? now : now + SessionList::kLookInterval;
}

void Worker::Impl::TakeBack(std::span<const int> written_fds) {
  if (written_fds.empty()) return;
  const Nanos time = clock.Now();  // A sleep ago it was another.
  for (const int fd : written_fds) sessions.OnEvent(fd, time);
}

}  // namespace uroce::datapath
