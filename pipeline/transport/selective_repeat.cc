// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/selective_repeat.h"

#include <algorithm>
#include <bit>

#include "pipeline/wire/packet.h"

namespace uroce::transport {

void KeptPackets::Start(wire::Psn expected) {
  if (set_ == nullptr) return;
  set_->psns.Clear();
  expected_ = end_ = expected;
  Look();
}

void KeptPackets::Insert(wire::Psn psn, uint32_t packets) {
  for (uint32_t i = 0; i < packets; ++i) set_->psns.Insert(psn + i);
  NoteSeen(psn + (packets - 1));
}

void KeptPackets::NoteSeen(wire::Psn psn) {
  if (psn.Since(end_) >= 0) end_ = psn + 1;
  Look();
}

void KeptPackets::Erase(wire::Psn psn) {
  set_->psns.Erase(psn);
  Look();
}

void KeptPackets::Advance(wire::Psn expected) {
  set_->psns.Erase(expected_, Distance(expected_, expected));
  expected_ = expected;
  if (end_.Since(expected) < 0) end_ = expected;
  Look();
}

std::span<const uint8_t> KeptPackets::Map() {
  const uint32_t bytes = wire::WriteKeptMap(
      Distance(expected_, end_),
      [this](uint32_t first) { return set_->psns.Word(expected_ + first); }, set_->map);
  return std::span(set_->map).first(bytes);
}

void SelectiveResend::Start(wire::Psn una) {
  lost_.Clear();
  resent_.Clear();
  resent_before_.Clear();
  una_ = una;
}

bool SelectiveResend::Add(wire::Psn psn) {
  if (lost_.Contains(psn) || resent_.Contains(psn) || resent_before_.Contains(psn)) return false;
  lost_.Insert(psn);
  return true;
}

void SelectiveResend::OnResent(wire::Psn psn, uint32_t packets) {
  const uint32_t within = std::min(packets, PacketSet::kWindow - Distance(una_, psn));
  lost_.Erase(psn, within);
  for (uint32_t i = 0; i < within; ++i) resent_.Insert(psn + i);
}

void SelectiveResend::NextRound() {
  if (resent_.empty() && resent_before_.empty()) return;
  resent_before_ = resent_;
  resent_.Clear();
}

uint32_t SelectiveResend::Add(wire::Psn from, uint64_t missing) {
  const uint64_t known = lost_.Word(from) | resent_.Word(from) | resent_before_.Word(from);
  lost_.Insert(from, missing & ~known);
  return static_cast<uint32_t>(std::popcount(missing & ~known));
}

bool SelectiveResend::OnArrived(wire::Psn from, uint64_t kept) {
  lost_.Erase(from, kept);
  const uint64_t resent = resent_.Word(from) & kept;
  if (resent == 0) return false;
  const auto last = static_cast<uint32_t>(std::bit_width(resent)) - 1;
  resent_.Erase(una_, Distance(una_, from + last));
  return true;
}

bool SelectiveResend::Forget(wire::Psn una) {
  const uint32_t packets = Distance(una_, una);
  const bool resent = !resent_.empty() && resent_.ToMember(una_) < packets;
  for (PacketSet* const set : {&lost_, &resent_, &resent_before_}) set->Erase(una_, packets);
  una_ = una;
  return resent;
}

namespace {

/// The number of packets that are processed together.
constexpr uint32_t kMapWord = 64;

constexpr uint64_t FirstBits(uint32_t count) {
  return count >= kMapWord ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace

bool SelectiveRepeat::SetActive(bool agreed) {
  if (!offered() || agreed == active_) return false;
  active_ = agreed;
  hears_maps_ = false;
  return true;
}

void SelectiveRepeat::Start(wire::Psn una) {
  has_lost_ = false;
  if (!offered()) return;
  sets_->lost.Start(una);
  sets_->taken.Clear();
  heard_ = searched_ = una;
}

void SelectiveRepeat::OnGoBack(wire::Psn una) {
  hears_maps_ = false;
  Start(una);
}

void SelectiveRepeat::OnResent(wire::Psn psn, uint32_t packets) {
  sets_->lost.OnResent(psn, packets);
  has_lost_ = sets_->lost.any();
}

void SelectiveRepeat::AddProbe(wire::Psn psn) {
  sets_->lost.AddProbe(psn);
  has_lost_ = true;
  resend_ = {.cause = ResendCause::kTailLossProbe};
}

bool SelectiveRepeat::TakeArrived(const SendWorks& works, wire::Psn base, const wire::KeptMap& map,
                                  const RoundTrip& round) {
  bool arrived = false;
  const uint32_t packets = MapReach(works, base, map);
  for (uint32_t at = 0; at < packets; at += kMapWord) {
    const uint64_t kept = map.Kept(at) & FirstBits(packets - at);
    if (kept == 0) continue;
    arrived |= sets_->lost.OnArrived(base + at, kept);
    const auto last = static_cast<uint32_t>(std::bit_width(kept)) - 1;
    arrived |= round.Covers(base + (at + last));
  }
  has_lost_ = sets_->lost.any();
  return arrived;
}

bool SelectiveRepeat::TakeArrived(wire::Psn una, wire::Psn psn) {
  if (Distance(una, psn) >= PacketSet::kWindow) return false;
  const bool resent = sets_->lost.OnArrived(psn, 1);
  has_lost_ = sets_->lost.any();
  return resent;
}

uint32_t SelectiveRepeat::AddMissing(const SendWorks& works, wire::Psn base,
                                     const wire::KeptMap& map) {
  const uint32_t packets = MapReach(works, base, map);
  uint32_t found = 0;
  for (uint32_t at = 0; at < packets; at += kMapWord) {
    found += sets_->lost.Add(base + at, ~map.Kept(at) & FirstBits(packets - at));
  }
  if (found == 0) return 0;
  has_lost_ = true;
  resend_ = {.cause = ResendCause::kSelectiveAck};
  return found;
}

uint32_t SelectiveRepeat::MapReach(const SendWorks& works, wire::Psn base,
                                   const wire::KeptMap& map) {
  // Packets that will be sent anyway, because of go-back-N, do not count as lost.
  const uint32_t ahead = Distance(works.una(), base);
  const uint32_t sent = works.InFlight() - std::min(works.InFlight(), ahead);
  const uint32_t window = PacketSet::kWindow - std::min(PacketSet::kWindow, ahead);
  return std::min({map.packets(), sent, window});
}

bool SelectiveRepeat::AddHole(const SendWorks& works, wire::Psn psn) {
  const uint32_t reach = std::min(works.InFlight(), PacketSet::kWindow);
  if (Distance(works.una(), psn) >= reach || !AddLost(psn)) return false;
  resend_ = {.cause = ResendCause::kSequenceNak};
  return true;
}

bool SelectiveRepeat::AddLost(wire::Psn psn) {
  if (!sets_->lost.Add(psn)) return false;
  has_lost_ = true;
  return true;
}

bool SelectiveRepeat::OnAcknowledged(wire::Psn una) {
  const bool resent = sets_->lost.Forget(una);
  has_lost_ = sets_->lost.any();
  if (heard_.Since(una) < 0) heard_ = una;
  if (searched_.Since(una) < 0) searched_ = una;
  return resent;
}

void SelectiveRepeat::OnRound(wire::Psn una) {
  sets_->lost.NextRound();
  searched_ = una;
}

bool SelectiveRepeat::NoteExecuted(const SendWorks& works, wire::Psn end) {
  if (end.Since(heard_) > 0) heard_ = end;
  return FindLostResponses(works);
}

bool SelectiveRepeat::FindLostResponses(const SendWorks& works) {
  const wire::Psn una = works.una();
  const uint32_t end = std::min({Distance(una, heard_), PacketSet::kWindow, works.InFlight()});
  bool found = false;
  uint32_t index = works.head_index();
  for (uint32_t i = Distance(una, searched_); i < end;) {
    const wire::Psn psn = una + i;
    index = works.IndexOf(psn, index);
    const HeldWork& work = works.At(index);
    if (!work.is_read_or_atomic()) {
      i += work.packets - Distance(work.first_psn, psn);
      continue;
    }
    found |= !HasTaken(psn) && AddLost(psn);
    ++i;
  }
  searched_ = heard_;
  if (found) resend_ = {.cause = ResendCause::kImpliedNak};
  return found;
}

bool SelectiveRepeat::AskAgain(const SendWorks& works) {
  sets_->lost.ForgetResent();
  searched_ = works.una();
  return FindLostResponses(works);
}

void SelectiveRepeat::OnEarlyResponse(wire::Psn psn) {
  heard_ = heard_.Since(psn) > 0 ? heard_ : psn + 1;
  searched_ = searched_.Since(psn) > 0 ? searched_ : psn + 1;
}

void SelectiveRepeat::AcknowledgeExecuted(SendWorks& works) {
  while (works.under_way() && heard_.Since(works.una()) > 0) {
    if (!works.head().is_read_or_atomic()) {
      works.AcknowledgeBefore(heard_);
      continue;
    }
    if (!HasTaken(works.una())) return;
    sets_->taken.Erase(works.una());
    works.TakeResponse();
  }
}

}  // namespace uroce::transport
