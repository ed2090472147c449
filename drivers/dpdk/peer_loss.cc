// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/peer_loss.h"

#include <rte_alarm.h>

#include <cstdint>

namespace uroce::drivers {
namespace {

// The driver schedules its work one microsecond ahead. One thread runs all alarms in the order of
// time, so the second of two alarms runs after the work that was scheduled before the first one
// ran.
constexpr uint64_t kAlarmUs = 1'000;

}  // namespace

PeerLoss::~PeerLoss() { Forget(); }

void PeerLoss::Notice() {
  noticed_ = true;
  rte_eal_alarm_set(kAlarmUs, &PeerLoss::OnFirstAlarm, this);
}

// Waits for an alarm that is running. The first alarm may have set the second one meanwhile.
void PeerLoss::Forget() {
  if (!noticed_) return;
  rte_eal_alarm_cancel(&PeerLoss::OnFirstAlarm, this);
  rte_eal_alarm_cancel(&PeerLoss::OnSecondAlarm, this);
  noticed_ = false;
  settled_.store(false, std::memory_order_relaxed);
}

void PeerLoss::OnFirstAlarm(void* self) {
  rte_eal_alarm_set(kAlarmUs, &PeerLoss::OnSecondAlarm, self);
}

void PeerLoss::OnSecondAlarm(void* self) {
  static_cast<PeerLoss*>(self)->settled_.store(true, std::memory_order_release);
}

}  // namespace uroce::drivers
