// SPDX-License-Identifier: Apache-2.0
#include "drivers/switch/switch_port.h"

namespace uroce::drivers {

bool SwitchPort::BeforeSleep(uint16_t queue) {
  if (!wakes_itself()) network_->BellOf(host_, queue).Announce();
  return !network_->HasFrames(host_, queue);
}

void SwitchPort::AfterSleep(uint16_t queue) {
  if (!wakes_itself()) network_->BellOf(host_, queue).TakeBack();
}

PortInfo SwitchPort::Info() const {
  const SwitchNic& nic = network_->nic(host_);
  const fabric::Fabric& fabric = network_->fabric();
  const fabric::Link& link = fabric.link(2 * fabric.CableOf(host_));
  return {.mac = nic.mac,
          .mtu_bytes = nic.mtu_bytes,
          .link_up = link.is_up,
          .speed_bps = link.config.rate_bps,
          .driver = "switch",
          .interface = "",
          .ifindex = 0};
}

}  // namespace uroce::drivers
