// SPDX-License-Identifier: Apache-2.0
// Sleeping without missing anything: say that one is about to, look again, then sleep.
#include <algorithm>

#include "drivers/port.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/rings/doorbells.h"

namespace uroce::datapath {

void Worker::Impl::Sleep() {
  if (AnnounceSleep()) sleeper.Sleep(SleepLimit());
  AnnounceAwake();
}

bool Worker::Impl::AnnounceSleep() {
  asleep.store(true, std::memory_order_relaxed);
  rings::FullFence();
  bool quiet = !mailbox.HasRequest() && !stop.load(std::memory_order_relaxed) && !HasWork();
  for (const SessionState& state : sessions) {
    quiet &= rings::AnnounceSleep(*state.session->doorbells());
    CopyHelper* const helper = state.session->copy_helper();
    if (helper != nullptr) quiet &= helper->AnnounceSleep();
  }
  for (const auto& port : ports) quiet &= port->device().port()->BeforeSleep();
  return quiet;
}

void Worker::Impl::AnnounceAwake() {
  asleep.store(false, std::memory_order_relaxed);
  for (const auto& port : ports) port->device().port()->AfterSleep();
  for (const SessionState& state : sessions) {
    rings::AnnounceAwake(*state.session->doorbells());
    CopyHelper* const helper = state.session->copy_helper();
    if (helper != nullptr) helper->AnnounceAwake();
  }
}

bool Worker::Impl::HasWork() const {
  if (!postponed.empty() || !touched.empty()) return true;
  return std::ranges::any_of(ports, [](const auto& port) { return port->has_work(); });
}

Nanos Worker::Impl::SleepLimit() const {
  const Nanos time = clock.Now();
  Nanos wake_at = std::min(timers.NextDeadline(), retry_records_at);
  for (const auto& port : ports) {
    const drivers::Port& driver = *port->device().port();
    wake_at = std::min(wake_at, driver.NextDeadline());
    if (driver.wait_fd() >= 0 || driver.wakes_itself()) continue;
    wake_at = std::min(wake_at, time + idle.PollInterval(time));
  }
  return wake_at == kNever ? kNever : wake_at - time;
}

}  // namespace uroce::datapath
