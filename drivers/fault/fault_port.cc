// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_port.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/base/observation.h"
#include "pipeline/fabric/frame.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/superframes.h"
#include "pipeline/wire/decode.h"

namespace uroce::drivers {
namespace {

constexpr size_t kLaneFrames = 1024;
constexpr size_t kHeldFrames = 64;
constexpr uint32_t kMaxPassingByChance = 8;
/// A held frame leaves after this time, even if too few other frames have passed it. That of a rule
/// may wait longer: what it does must not depend on when the worker runs.
constexpr Nanos kHoldLimit{200'000};
constexpr Nanos kRuleHoldLimit{10'000'000};

std::span<uint8_t> BytesOf(rte_mbuf* frame) {
  return {rte_pktmbuf_mtod(frame, uint8_t*), frame->data_len};
}

}  // namespace

FaultCounters& FaultCounters::operator+=(const FaultCounters& other) {
  taken += other.taken;
  dropped += other.dropped;
  duplicated += other.duplicated;
  reordered += other.reordered;
  corrupted += other.corrupted;
  ce_marked += other.ce_marked;
  return *this;
}

FaultLane::FaultLane(const FaultConfig& config, LaneRules rules, uint64_t seed, rte_mempool* copies)
    : copies_(copies) {
  Set(config, std::move(rules), seed);
}

FaultLane::~FaultLane() {
  for (const Late& late : line_) rte_pktmbuf_free(late.frame);
  for (const Held& held : held_) rte_pktmbuf_free(held.frame);
}

void FaultLane::Set(const FaultConfig& config, LaneRules rules, uint64_t seed) {
  config_ = config;
  rules_ = std::move(rules);
  is_harmless_ = config_.is_harmless() && rules_.empty();
  held_.reserve(rules_.empty() ? kHeldFrames : kLaneFrames);
  random_.seed(seed);
}

/// Draws a number at every call, so that a change of one rate does not change the other faults.
bool FaultLane::Chance(double rate) {
  constexpr double kOne = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(random_() >> 11) * kOne < rate;
}

FaultLane::Fate FaultLane::DrawFate() {
  Fate fate;
  fate.drop = Chance(config_.drop) || config_.link_down;
  fate.duplicate = Chance(config_.duplicate);
  const bool reorder = Chance(config_.reorder);
  fate.corrupt = Chance(config_.corrupt);
  fate.mark = Chance(config_.ce_mark);
  if (reorder && held_.size() < kHeldFrames) {
    const auto passing = static_cast<uint32_t>(random_() % kMaxPassingByChance) + 1;
    fate.hold = Hold{.longest = kHoldLimit, .passing = passing};
  }
  return fate;
}

/// Every rule counts every packet that it matches, whatever others do to the packet.
void FaultLane::ApplyRules(std::span<const uint8_t> frame, Fate& fate) {
  wire::Packet packet;
  wire::FrameView view;
  if (wire::Decode(frame, packet, view) != wire::DecodeResult::kOk) return;
  for (ActiveFaultRule* const active : rules_) {
    const FaultRule& rule = active->rule;
    if (!rule.Matches(packet.header)) continue;
    const uint64_t number = active->matched.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!rule.ActsOn(number)) continue;
    active->acted.fetch_add(1, std::memory_order_relaxed);
    switch (rule.action) {
      case FaultRule::Action::kDrop:
        fate.drop = true;
        break;
      case FaultRule::Action::kDuplicate:
        fate.duplicate = true;
        break;
      case FaultRule::Action::kCorrupt:
        fate.corrupt_at = view.icrc_offset - 1;  // All headers stay as they are.
        break;
      case FaultRule::Action::kMark:
        fate.mark = true;
        break;
      case FaultRule::Action::kDelay:
        fate.hold = Hold{.longest = rule.delay, .passing = UINT32_MAX};
        break;
      case FaultRule::Action::kReorder:
        fate.hold = Hold{.longest = kRuleHoldLimit, .passing = rule.passing};
        break;
    }
  }
}

void FaultLane::Put(rte_mbuf* frame, Nanos now) {
  assert(room() > 0);
  ++counters_.taken;
  Fate fate = DrawFate();
  if (!rules_.empty()) ApplyRules(BytesOf(frame), fate);
  if (fate.drop) {
    ++counters_.dropped;
    rte_pktmbuf_free(frame);
    return;
  }
  if (fate.mark && fabric::MarkCongestionExperienced(BytesOf(frame))) ++counters_.ce_marked;
  // The copy is not corrupted, so that a corrupted frame may have an intact duplicate.
  if (fate.duplicate) Duplicate(frame, now);
  if (fate.corrupt_at) {
    Change(frame, *fate.corrupt_at, 0xff);
  } else if (fate.corrupt) {
    Corrupt(frame);
  }
  Line(frame, fate.hold, now);
}

void FaultLane::Line(rte_mbuf* frame, const std::optional<Hold>& hold, Nanos now) {
  const Nanos due = now + config_.delay;
  if (!hold) {
    // After the delay was made shorter, later frames do not overtake earlier ones.
    line_.push_back({.frame = frame, .due = line_.empty() ? due : std::max(due, line_.back().due)});
    return;
  }
  ++counters_.reordered;
  held_.push_back({.frame = frame, .due = due + hold->longest, .passing = hold->passing});
}

void FaultLane::Duplicate(const rte_mbuf* frame, Nanos now) {
  rte_mbuf* const copy = rte_pktmbuf_copy(frame, copies_, 0, UINT32_MAX);
  if (copy == nullptr) return;
  // Ports carry single segments, and a pool of small mbufs would make a chain.
  if (copy->nb_segs != 1) {
    rte_pktmbuf_free(copy);
    return;
  }
  ++counters_.duplicated;
  Line(copy, std::nullopt, now);
}

void FaultLane::Corrupt(rte_mbuf* frame) {
  const uint64_t draw = random_();
  if (frame->data_len == 0) return;
  const auto at = static_cast<uint32_t>((draw >> 8) % frame->data_len);
  const auto flip = static_cast<uint8_t>(draw % 255 + 1);
  Change(frame, at, flip);
}

/// A frame without an ICRC has the right one before, so that its receiver can tell.
void FaultLane::Change(rte_mbuf* frame, uint32_t at, uint8_t flip) {
  static const PendingIcrc pending;
  static const CheckedIcrc checked;
  pending.Settle(*frame);
  checked.Clear(*frame);
  BytesOf(frame)[at] ^= flip;
  ++counters_.corrupted;
}

/// Takes a held frame whose time has come, or null.
rte_mbuf* FaultLane::TakeHeld(Nanos now) {
  const auto leaves = [now](const Held& held) { return held.passing == 0 || held.due <= now; };
  const auto found = std::find_if(held_.begin(), held_.end(), leaves);
  if (found == held_.end()) return nullptr;
  rte_mbuf* const frame = found->frame;
  held_.erase(found);
  return frame;
}

uint16_t FaultLane::Take(rte_mbuf** frames, uint16_t count, Nanos now) {
  uint16_t taken = 0;
  while (taken < count) {
    if (rte_mbuf* const held = TakeHeld(now); held != nullptr) {
      frames[taken++] = held;
      continue;
    }
    if (line_.empty() || line_.front().due > now) break;
    frames[taken++] = line_.front().frame;
    line_.pop_front();
    for (Held& held : held_) --held.passing;
  }
  return taken;
}

void FaultLane::Untake(rte_mbuf* const* frames, uint16_t count) {
  for (uint16_t i = count; i > 0; --i) line_.push_front({.frame = frames[i - 1], .due = Nanos(0)});
}

uint16_t FaultLane::room() const {
  const size_t used = line_.size() + held_.size();
  return used >= kLaneFrames ? 0 : static_cast<uint16_t>((kLaneFrames - used) / 2);
}

Nanos FaultLane::NextDeadline() const {
  Nanos next = line_.empty() ? kNever : line_.front().due;
  for (const Held& held : held_) {
    next = std::min(next, held.passing == 0 ? Nanos(0) : held.due);
  }
  return next;
}

namespace {

constexpr uint16_t kLaneBurst = 32;

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
    : port_(std::move(port)), copies_(copies) {
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
  std::array<rte_mbuf*, kLaneBurst> frames;
  for (;;) {
    const uint16_t due = lane.Take(frames.data(), kLaneBurst, now);
    if (due == 0) return;
    const uint16_t sent = port_->TransmitBurst(queue, frames.data(), due, now);
    lane.Untake(frames.data() + sent, static_cast<uint16_t>(due - sent));
    if (sent < due) return;
  }
}

void FaultPort::TakeIn(uint16_t queue, Nanos now) {
  FaultLane& lane = lanes_[queue]->receive;
  std::array<rte_mbuf*, kLaneBurst> frames;
  const uint16_t room = std::min(kLaneBurst, lane.room());
  const uint16_t arrived = port_->ReceiveBurst(queue, frames.data(), room, now);
  for (uint16_t i = 0; i < arrived; ++i) lane.Put(frames[i], now);
}

uint16_t FaultPort::ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) {
  if (!lanes_[queue]->transmit.is_idle()) SendOn(queue, now);
  if (lanes_[queue]->receive.is_idle()) return port_->ReceiveBurst(queue, frames, count, now);
  TakeIn(queue, now);
  return lanes_[queue]->receive.Take(frames, count, now);
}

uint16_t FaultPort::ReceiveWhole(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) {
  const Lanes& lanes = *lanes_[queue];
  if (!lanes.transmit.is_idle() || !lanes.receive.is_idle()) {
    return ReceiveBurst(queue, frames, count, now);
  }
  return port_->ReceiveWhole(queue, frames, count, now);
}

bool FaultPort::PutFrames(FaultLane& lane, rte_mbuf* frame, Nanos now) {
  const uint32_t packets = PacketsOf(*frame);
  if (lane.room() < packets) return false;
  if (packets == 1) {
    lane.Put(frame, now);
  } else {
    Count(lost_, CutSuperframe(frame, copies_, [&](rte_mbuf* cut) { lane.Put(cut, now); }));
  }
  return true;
}

PortCounters FaultPort::counters() const {
  PortCounters counters = port_->counters();
  counters.tx_discards += lost_.load(std::memory_order_relaxed);
  return counters;
}

uint16_t FaultPort::TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) {
  FaultLane& lane = lanes_[queue]->transmit;
  if (lane.is_idle()) return port_->TransmitBurst(queue, frames, count, now);
  uint16_t taken = 0;
  while (taken < count && PutFrames(lane, frames[taken], now)) ++taken;
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
