// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_lane.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "drivers/pending_icrc.h"
#include "pipeline/fabric/frame_headers.h"
#include "pipeline/wire/decode.h"

namespace uroce::drivers {
namespace {

constexpr size_t kLaneFrames = 1024;
constexpr size_t kHeldFrames = 64;
constexpr uint32_t kMaxPassing = 8;
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
    const auto passing = static_cast<uint32_t>(random_() % kMaxPassing) + 1;
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
  pending.Settle(*frame);
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

}  // namespace uroce::drivers
