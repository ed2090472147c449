// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/device_events.h"

#include <rte_alarm.h>
#include <rte_pause.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace uroce::drivers {
namespace {

constexpr rte_eth_event_type kEvents[] = {RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_QUEUE_STATE};

bool LinkIsUp(uint16_t port_id) {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace

DeviceEvents::DeviceEvents() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

DeviceEvents::~DeviceEvents() {
  Forget();
  close(event_fd_);
}

void DeviceEvents::Listen(uint16_t port_id) {
  port_id_ = port_id;
  for (const rte_eth_event_type event : kEvents) {
    rte_eth_dev_callback_register(port_id, event, &DeviceEvents::OnEvent, this);
  }
}

void DeviceEvents::Forget() {
  if (port_id_ == kNone) return;
  for (const rte_eth_event_type event : kEvents) {
    // Unregistering fails while the callback runs.
    while (rte_eth_dev_callback_unregister(port_id_, event, &DeviceEvents::OnEvent, this) ==
           -EAGAIN) {
      rte_pause();
    }
  }
  port_id_ = kNone;
}

void DeviceEvents::Take() {
  uint64_t events = 0;
  [[maybe_unused]] const ssize_t got = read(event_fd_, &events, sizeof(events));
}

// The driver marks a device that goes away as gone before it calls this, and frees the device after
// the call. At every other event the driver may hold locks that a worker inside waits for.
int DeviceEvents::OnEvent(uint16_t port_id, rte_eth_event_type type, void* self, void*) {
  auto& events = *static_cast<DeviceEvents*>(self);
  if (type == RTE_ETH_EVENT_INTR_LSC && !LinkIsUp(port_id)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    while (events.inside_.load(std::memory_order_acquire) != 0) rte_pause();
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(events.event_fd_, &one, sizeof(one));
  return 0;
}

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
