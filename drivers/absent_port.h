// SPDX-License-Identifier: Apache-2.0
// Stands for a port that was removed: nothing arrives, and what is sent is dropped.
#pragma once

#include "drivers/port.h"

namespace uroce::drivers {

/// Any number of threads may use it, with any number of queues. A worker that sleeps is not woken
/// by it.
class AbsentPort final : public Port {
 public:
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override;
  bool wakes_itself() const override { return true; }
  PortInfo Info() const override { return {}; }
};

}  // namespace uroce::drivers
