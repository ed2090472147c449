// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault_port.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kBurst = 32;

/// The configuration of one lane: harmless where `direction` does not include it.
FaultConfig LaneConfig(const FaultConfig& config, FaultConfig::Direction lane) {
  const bool meant = config.direction == FaultConfig::Direction::kBoth || config.direction == lane;
  return meant ? config : FaultConfig{};
}

}  // namespace

FaultPort::FaultPort(std::unique_ptr<Port> port, const FaultConfig& config, rte_mempool* copies)
    : port_(std::move(port)),
      receive_(LaneConfig(config, FaultConfig::Direction::kReceive), 2 * config.seed, copies),
      transmit_(LaneConfig(config, FaultConfig::Direction::kTransmit), 2 * config.seed + 1,
                copies) {}

/// Frames that are due, to the wrapped port; what it does not take waits here.
void FaultPort::SendOn(Nanos now) {
  std::array<rte_mbuf*, kBurst> frames;
  for (;;) {
    const uint16_t due = transmit_.Take(frames.data(), kBurst, now);
    if (due == 0) return;
    const uint16_t sent = port_->TransmitBurst(frames.data(), due, now);
    transmit_.Untake(frames.data() + sent, static_cast<uint16_t>(due - sent));
    if (sent < due) return;
  }
}

void FaultPort::TakeIn(Nanos now) {
  std::array<rte_mbuf*, kBurst> frames;
  const uint16_t room = std::min(kBurst, receive_.room());
  const uint16_t arrived = port_->ReceiveBurst(frames.data(), room, now);
  for (uint16_t i = 0; i < arrived; ++i) receive_.Put(frames[i], now);
}

uint16_t FaultPort::ReceiveBurst(rte_mbuf** frames, uint16_t count, Nanos now) {
  SendOn(now);
  TakeIn(now);
  return receive_.Take(frames, count, now);
}

uint16_t FaultPort::TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos now) {
  uint16_t taken = 0;
  for (; taken < count && transmit_.room() > 0; ++taken) transmit_.Put(frames[taken], now);
  SendOn(now);
  return taken;
}

uint16_t FaultPort::TransmitRoom() const { return transmit_.room(); }

Nanos FaultPort::NextDeadline() const {
  return std::min({port_->NextDeadline(), receive_.NextDeadline(), transmit_.NextDeadline()});
}

PortInfo FaultPort::Info() const {
  PortInfo info = port_->Info();
  info.driver = absl::StrCat("fault(", info.driver, ")");
  return info;
}

}  // namespace uroce::drivers
