// SPDX-License-Identifier: Apache-2.0
// Wraps any port and mistreats its frames by seed and rates.
#pragma once

#include <memory>

#include "drivers/fault_config.h"
#include "drivers/fault_lane.h"
#include "drivers/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// A port with faults in one or both directions. Frames that wait in it are sent on by
/// ReceiveBurst too, so a worker that polls needs to do nothing else; one that would sleep asks
/// NextDeadline.
class FaultPort final : public Port {
 public:
  /// Duplicates are copied into mbufs of `copies`, which outlives this port.
  FaultPort(std::unique_ptr<Port> port, const FaultConfig& config, rte_mempool* copies);

  uint16_t ReceiveBurst(rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom() const override;
  int wait_fd() const override { return port_->wait_fd(); }
  bool wakes_itself() const override { return port_->wakes_itself(); }
  bool BeforeSleep() override { return port_->BeforeSleep(); }
  void AfterSleep() override { port_->AfterSleep(); }
  Nanos NextDeadline() const override;
  PortInfo Info() const override;
  PortCounters counters() const override { return port_->counters(); }
  void Maintain(WhileIdle while_idle) override { port_->Maintain(while_idle); }
  int maintain_fd() const override { return port_->maintain_fd(); }

  /// Worker's thread, or when no worker runs.
  const FaultCounters& receive_counters() const { return receive_.counters(); }
  const FaultCounters& transmit_counters() const { return transmit_.counters(); }

 private:
  void SendOn(Nanos now);
  void TakeIn(Nanos now);

  const std::unique_ptr<Port> port_;
  FaultLane receive_;
  FaultLane transmit_;
};

}  // namespace uroce::drivers
