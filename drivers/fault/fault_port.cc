// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_port.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kBurst = 32;

/// The rates and the delay of one lane, none when `direction` does not include the lane; the link
/// is that of both.
FaultConfig LaneConfig(const FaultConfig& config, FaultDirection lane) {
  const bool meant = config.direction == FaultDirection::kBoth || config.direction == lane;
  FaultConfig its = meant ? config : FaultConfig{};
  its.link_down = config.link_down;
  its.rules.clear();
  return its;
}

/// The seed of one direction of one queue: each lane draws its own random numbers.
uint64_t LaneSeed(const FaultConfig& config, uint16_t queue, uint64_t direction) {
  constexpr uint64_t kApart = 0x9e3779b97f4a7c15;
  return 2 * config.seed + direction + queue * kApart;
}

}  // namespace

FaultPort::FaultPort(std::unique_ptr<Port> port, const FaultConfig& config, rte_mempool* copies)
    : port_(std::move(port)) {
  for (uint16_t queue = 0; queue < port_->queues(); ++queue) {
    lanes_.emplace_back(new Lanes{.receive = FaultLane({}, {}, 0, copies),
                                  .transmit = FaultLane({}, {}, 0, copies)});
  }
  Set(config);
}

LaneRules FaultPort::RulesOf(FaultDirection lane) const {
  LaneRules rules;
  for (const auto& active : rules_) {
    const FaultDirection direction = active->rule.direction;
    if (direction == FaultDirection::kBoth || direction == lane) rules.push_back(active.get());
  }
  return rules;
}

void FaultPort::Set(const FaultConfig& config) {
  is_harmless_ = config.is_harmless();
  is_link_down_ = config.link_down;
  rules_.clear();
  for (const FaultRule& rule : config.rules) {
    rules_.push_back(std::make_unique<ActiveFaultRule>(rule));
  }
  for (uint16_t queue = 0; queue < port_->queues(); ++queue) {
    lanes_[queue]->receive.Set(LaneConfig(config, FaultDirection::kReceive),
                               RulesOf(FaultDirection::kReceive), LaneSeed(config, queue, 0));
    lanes_[queue]->transmit.Set(LaneConfig(config, FaultDirection::kTransmit),
                                RulesOf(FaultDirection::kTransmit), LaneSeed(config, queue, 1));
  }
}

/// Gives the frames that are due to the wrapped port. Frames that it does not take wait here.
void FaultPort::SendOn(uint16_t queue, Nanos now) {
  FaultLane& lane = lanes_[queue]->transmit;
  std::array<rte_mbuf*, kBurst> frames;
  for (;;) {
    const uint16_t due = lane.Take(frames.data(), kBurst, now);
    if (due == 0) return;
    const uint16_t sent = port_->TransmitBurst(queue, frames.data(), due, now);
    lane.Untake(frames.data() + sent, static_cast<uint16_t>(due - sent));
    if (sent < due) return;
  }
}

void FaultPort::TakeIn(uint16_t queue, Nanos now) {
  FaultLane& lane = lanes_[queue]->receive;
  std::array<rte_mbuf*, kBurst> frames;
  const uint16_t room = std::min(kBurst, lane.room());
  const uint16_t arrived = port_->ReceiveBurst(queue, frames.data(), room, now);
  for (uint16_t i = 0; i < arrived; ++i) lane.Put(frames[i], now);
}

uint16_t FaultPort::ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) {
  if (!lanes_[queue]->transmit.is_idle()) SendOn(queue, now);
  if (lanes_[queue]->receive.is_idle()) return port_->ReceiveBurst(queue, frames, count, now);
  TakeIn(queue, now);
  return lanes_[queue]->receive.Take(frames, count, now);
}

uint16_t FaultPort::TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) {
  FaultLane& lane = lanes_[queue]->transmit;
  if (lane.is_idle()) return port_->TransmitBurst(queue, frames, count, now);
  uint16_t taken = 0;
  for (; taken < count && lane.room() > 0; ++taken) lane.Put(frames[taken], now);
  SendOn(queue, now);
  return taken;
}

uint16_t FaultPort::TransmitRoom(uint16_t queue) const {
  const FaultLane& lane = lanes_[queue]->transmit;
  return lane.is_idle() ? port_->TransmitRoom(queue) : lane.room();
}

Nanos FaultPort::NextDeadline(uint16_t queue) const {
  const Lanes& lanes = *lanes_[queue];
  return std::min(
      {port_->NextDeadline(queue), lanes.receive.NextDeadline(), lanes.transmit.NextDeadline()});
}

FaultCounters FaultPort::receive_counters() const {
  FaultCounters sum;
  for (const auto& lanes : lanes_) sum += lanes->receive.counters();
  return sum;
}

FaultCounters FaultPort::transmit_counters() const {
  FaultCounters sum;
  for (const auto& lanes : lanes_) sum += lanes->transmit.counters();
  return sum;
}

PortInfo FaultPort::Info() const {
  PortInfo info = port_->Info();
  if (!is_harmless_) info.driver = absl::StrCat("fault(", info.driver, ")");
  if (is_link_down_ && info.link_up) {
    info.link_up = false;
    info.why_down = "its fault link=down";
  }
  return info;
}

}  // namespace uroce::drivers
