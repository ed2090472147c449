// SPDX-License-Identifier: Apache-2.0
// A port around any other port: it drops, duplicates, delays, reorders, corrupts or marks the
// frames, by a seed and rates, and single packets by rules, or has no link.
#pragma once

#include <memory>
#include <vector>

#include "drivers/fault/fault_config.h"
#include "drivers/fault/fault_lane.h"
#include "drivers/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// A port with faults in one or both directions. Each queue has its own faults: on a port of one
/// queue the same seed and frames give the same faults. Without faults the port passes bursts on
/// unchanged. ReceiveBurst also sends on the frames that wait in the port, so a worker that polls
/// needs to do nothing else. A worker that wants to sleep asks NextDeadline.
class FaultPort final : public Port {
 public:
  /// Duplicates are copied into mbufs of `copies`, which outlives this port.
  FaultPort(std::unique_ptr<Port> port, const FaultConfig& config, rte_mempool* copies);

  uint16_t queues() const override { return port_->queues(); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override;
  int wait_fd(uint16_t queue) const override { return port_->wait_fd(queue); }
  bool wakes_itself() const override { return port_->wakes_itself(); }
  bool BeforeSleep(uint16_t queue) override { return port_->BeforeSleep(queue); }
  void AfterSleep(uint16_t queue) override { port_->AfterSleep(queue); }
  Nanos NextDeadline(uint16_t queue) const override;
  Nanos Lag(Nanos now) const override { return port_->Lag(now); }
  bool may_lag() const override { return port_->may_lag(); }
  uint64_t receive_buffer_bytes() const override { return port_->receive_buffer_bytes(); }
  PortInfo Info() const override;
  PortCounters counters() const override { return port_->counters(); }
  void Maintain(WhileIdle while_idle) override { port_->Maintain(while_idle); }
  int maintain_fd() const override { return port_->maintain_fd(); }

  // ---- while no worker is inside ----
  /// Applies from now on. Each queue starts its random numbers from the new seed.
  void Set(const FaultConfig& config);
  /// The counters, summed over all queues.
  FaultCounters receive_counters() const;
  FaultCounters transmit_counters() const;
  /// The rules with their counts, which Set makes anew. Also while workers are inside.
  const std::vector<std::unique_ptr<ActiveFaultRule>>& rules() const { return rules_; }

 private:
  /// Both directions of one queue.
  struct alignas(64) Lanes {
    FaultLane receive;
    FaultLane transmit;
  };

  LaneRules RulesOf(FaultDirection lane) const;
  void SendOn(uint16_t queue, Nanos now);
  void TakeIn(uint16_t queue, Nanos now);

  const std::unique_ptr<Port> port_;
  bool is_harmless_ = true;
  bool is_link_down_ = false;
  std::vector<std::unique_ptr<ActiveFaultRule>> rules_;
  std::vector<std::unique_ptr<Lanes>> lanes_;
};

}  // namespace uroce::drivers
