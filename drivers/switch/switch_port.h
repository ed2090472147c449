// SPDX-License-Identifier: Apache-2.0
// The port of a NIC at an emulated switch.
#pragma once

#include <memory>
#include <vector>

#include "drivers/port.h"
#include "drivers/switch/switch_network.h"

namespace uroce::drivers {

/// It has its place at the switch, which SwitchNetwork::TakeIn has given to it, until its end.
/// Its link state and speed are those of its link to the switch. While that link has no room for
/// more frames, the sender has to wait; a link that is down takes all frames and loses them.
class SwitchPort final : public Port {
 public:
  SwitchPort(std::shared_ptr<SwitchNetwork> network, uint32_t host)
      : network_(std::move(network)), host_(host) {}
  /// The place at the switch is free then.
  ~SwitchPort() override { network_->Release(host_); }

  uint16_t queues() const override { return network_->queues(); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    return network_->Receive(host_, queue, frames, count, now);
  }
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    return network_->Transmit(host_, queue, frames, count, now);
  }
  uint16_t TransmitRoom(uint16_t queue) const override { return network_->Room(host_, queue); }
  int wait_fd(uint16_t queue) const override {
    return wakes_itself() ? -1 : network_->BellOf(host_, queue).fd();
  }
  bool wakes_itself() const override { return queues() == 1; }
  bool BeforeSleep(uint16_t queue) override;
  void AfterSleep(uint16_t queue) override;
  Nanos NextDeadline(uint16_t queue) const override { return network_->NextDeadline(queue); }
  Nanos Lag(Nanos now) const override { return network_->Lag(now); }
  bool may_lag() const override { return true; }
  PortInfo Info() const override;
  PortCounters counters() const override { return {.rx_missed = network_->missed(host_)}; }

 private:
  const std::shared_ptr<SwitchNetwork> network_;
  const uint32_t host_;
};

}  // namespace uroce::drivers
