// SPDX-License-Identifier: Apache-2.0
// Sleeping without missing anything: say that one is about to, look again, then sleep.
#include <sched.h>

#include <algorithm>

#include "pipeline/datapath/grace_periods.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/rings/doorbells.h"

namespace uroce::datapath {

void Worker::Impl::Sleep() {
  if (AnnounceSleep()) {
    if (config.grace != nullptr) config.grace->Leave(config.index);
    sleeper.Sleep(SleepLimit());
    if (config.grace != nullptr) config.grace->Enter(config.index);
  } else {
    sched_yield();  // What it waits for may need this core: a full ring's other end.
  }
  AnnounceAwake();
}

bool Worker::Impl::AnnounceSleep() {
  asleep.store(true, std::memory_order_relaxed);
  rings::FullFence();
  bool quiet = !mailbox.HasRequest() && !stop.load(std::memory_order_relaxed) && !HasWork();
  for (const SessionState& state : sessions) {
    quiet &= rings::AnnounceSleep(*state.session->doorbells(config.index));
    CopyHelper* const helper = state.session->copy_helper();
    if (helper != nullptr) quiet &= helper->AnnounceSleep(config.index);
  }
  for (const auto& port : ports) quiet &= port->BeforeSleep();
  return quiet;
}

void Worker::Impl::AnnounceAwake() {
  asleep.store(false, std::memory_order_relaxed);
  for (const auto& port : ports) port->AfterSleep();
  for (const SessionState& state : sessions) {
    rings::AnnounceAwake(*state.session->doorbells(config.index));
    CopyHelper* const helper = state.session->copy_helper();
    if (helper != nullptr) helper->AnnounceAwake(config.index);
  }
}

bool Worker::Impl::HasWork() const {
  if (!postponed.empty() || !touched.empty() || !handover.empty()) return true;
  return std::ranges::any_of(ports, [](const auto& port) { return port->has_work(); });
}

Nanos Worker::Impl::SleepLimit() const {
  const Nanos time = clock.Now();
  Nanos wake_at = std::min(timers.NextDeadline(), retry_records_at);
  for (const auto& port : ports) {
    wake_at = std::min(wake_at, port->NextDeadline());
    if (port->needs_polling()) wake_at = std::min(wake_at, time + idle.PollInterval(time));
  }
  return wake_at == kNever ? kNever : wake_at - time;
}

}  // namespace uroce::datapath
