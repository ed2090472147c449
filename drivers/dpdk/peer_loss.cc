// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/peer_loss.h"

#include <rte_alarm.h>

#include <cstdint>

namespace uroce::drivers {
namespace {

// The driver orders its work for one microsecond later. One thread does all of it in the order of
// time, so that of two alarms the second comes after what that thread ordered before the first.
constexpr uint64_t kAlarmUs = 1'000;

}  // namespace

PeerLoss::~PeerLoss() { Forget(); }

void PeerLoss::Notice() {
  noticed_ = true;
  rte_eal_alarm_set(kAlarmUs, &PeerLoss::OnFirstAlarm, this);
}

// Waits for an alarm that is under way. The first may have set the second meanwhile.
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
