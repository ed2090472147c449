// SPDX-License-Identifier: Apache-2.0
// Requester, selective repeat: with a responder that names what it misses, that alone is sent again
// (selective_repeat.h).
#include <algorithm>

#include "pipeline/transport/requester.h"

namespace uroce::transport {
namespace {

/// A probe waits for so many round trips without a word, and at least so long: acknowledgements
/// wait for the end of a burst, and programs for their CPU.
constexpr int64_t kProbeRoundTrips = 3;
constexpr Nanos kLeastProbeWait{100'000};
/// Where the QP has no ACK timeout, there are no probes beyond this wait.
constexpr Nanos kLongestProbeWait{64'000'000};
constexpr uint8_t kMaxProbeBackoff = 16;
/// The weight of a new sample of the round trip is one in so many.
constexpr int64_t kSmoothing = 8;

}  // namespace

void Requester::PollResend(TxPacket& packet) {
  const wire::Psn psn = lost_->Next();
  const HeldWork& work = ring_.At(IndexOf(psn, done_));
  const bool answered = work.is_read() && heard_.Since(psn) > 0;
  const uint32_t packets =
      answered ? FillLostResponses(work, psn, packet) : Fill(work, psn, packet);
  lost_->OnResent(psn, packets);
  has_lost_ = lost_->any();
  packet.header.ack_request |= !has_lost_;
  packet.retransmission = true;
  packet.resend = resend_;
  ++counters_.retransmitted_pkts;
}

uint32_t Requester::FillLostResponses(const HeldWork& work, wire::Psn psn, TxPacket& packet) const {
  const uint32_t sent = Distance(work.first_psn, psn);
  const uint32_t packets = std::min(lost_->Run(), work.packets - sent);
  packet.header.psn = psn;
  FillRead(work, sent, packet);
  uint32_t& length_bytes = packet.header.reth.length_bytes;
  length_bytes = std::min(length_bytes, packets * mtu_.bytes());
  return packets;
}

void Requester::TakeMark(uint8_t mark, Nanos now) {
  if (!IsResponseMark(mark)) {
    // A responder of another make: it is not asked again.
    if (!selective_) mark_ = 0;
    return;
  }
  if (!selective_) ForgetLost();
  selective_ = true;
  probe_backoff_ = 0;
  StartProbeTimer(now);
  if ((mark & kMarkRoundMask) != (mark_ & kMarkRoundMask)) return;
  if (round_began_ != kNever) {
    const Nanos sample = now - round_began_;
    const int64_t change = (sample - round_trip_).count() / kSmoothing;
    round_trip_ = round_trip_ == Nanos() ? sample : round_trip_ + Nanos(change);
  }
  NextRound();
  window_.OnRound(RequestsInFlight());
  // What was resent before this round has arrived by now, or is lost once more.
  resending_ = false;
  searched_ = una_;
}

void Requester::ForgetLost() {
  has_lost_ = false;
  if (lost_ == nullptr) return;
  lost_->Start(una_);
  placed_->Clear();
  heard_ = searched_ = una_;
}

void Requester::NextRound() {
  lost_->NextRound();
  mark_ = kMarkRequest | ((mark_ + 1) & kMarkRoundMask);
  round_began_ = kNever;
}

void Requester::OnHole(wire::Psn base, const Hole& hole) {
  const uint32_t begin = Distance(una_, base) + hole.offset;
  const uint32_t end = std::min({begin + hole.packets, PacketSet::kWindow, InFlight()});
  NoteResend(ResendCause::kSequenceNak);
  for (uint32_t i = begin; i < end; ++i) {
    if (AddLost(una_ + i)) window_.OnLost();
  }
}

void Requester::GoBackTo(wire::Psn psn) {
  if (resending_ || waiting_rnr_ || Distance(una_, psn) >= InFlight()) return;
  resending_ = true;
  NoteResend(ResendCause::kSequenceNak);
  if (psn == una_) return GoBack(resend_);
  response_psns_ = 0;
  next_psn_ = una_;
  for (next_ = done_; next_psn_ != psn; ++next_) {
    const HeldWork& work = ring_.At(next_);
    const uint32_t left = work.packets - Distance(work.first_psn, next_psn_);
    const uint32_t packets = std::min(left, Distance(next_psn_, psn));
    if (work.is_read()) response_psns_ += packets - 1;
    next_psn_ = next_psn_ + packets;
    if (packets < left) break;  // From within a message.
  }
  while (next_ != begun_ && ring_.At(next_).is_local()) ++next_;
}

bool Requester::AddLost(wire::Psn psn) {
  if (!lost_->Add(psn)) return false;
  has_lost_ = true;
  return true;
}

void Requester::NoteHeard(wire::Psn end) {
  if (end.Since(heard_) > 0) heard_ = end;
  FindLostResponses();
}

void Requester::FindLostResponses() {
  const uint32_t end = std::min({Distance(una_, heard_), PacketSet::kWindow, InFlight()});
  bool found = false;
  uint32_t index = done_;
  for (uint32_t i = Distance(una_, searched_); i < end;) {
    const wire::Psn psn = una_ + i;
    index = IndexOf(psn, index);
    const HeldWork& work = ring_.At(index);
    if (!work.is_read_or_atomic()) {
      i += work.packets - Distance(work.first_psn, psn);
      continue;
    }
    found |= !placed_->Contains(psn) && AddLost(psn);
    ++i;
  }
  searched_ = heard_;
  if (!found) return;
  ++counters_.implied_nak_seq_err;
  NoteResend(ResendCause::kImpliedNak);
}

PacketResult Requester::OnEarlyResponse(const wire::Packet& packet, Effect& effect) {
  const wire::Psn psn = packet.header.psn;
  NoteHeard(psn);
  if (failed_ || Distance(una_, psn) >= PacketSet::kWindow) return PacketResult::kOutOfSequence;
  if (placed_->Contains(psn)) return PacketResult::kGhost;
  // What is wrong with it is found in its turn, when it was asked for again.
  const HeldWork& work = ring_.At(IndexOf(psn, done_));
  if (!IsAnswer(packet.header, work)) return PacketResult::kMalformed;
  if (PlaceResponse(work, packet, effect) != WcStatus::kSuccess) return PacketResult::kMalformed;
  effect_psn_ = psn;
  heard_ = heard_.Since(psn) > 0 ? heard_ : psn + 1;
  searched_ = searched_.Since(psn) > 0 ? searched_ : psn + 1;
  if (effect.kind == Effect::Kind::kNone) OnEarlyDone(EffectOutcome::kDone);
  return PacketResult::kAccepted;
}

void Requester::OnEarlyDone(EffectOutcome outcome) {
  if (outcome == EffectOutcome::kDone) placed_->Insert(effect_psn_);
}

void Requester::TakeHeard() {
  while (done_ != begun_ && heard_.Since(una_) > 0) {
    const HeldWork& work = ring_.At(done_);
    if (work.is_read_or_atomic()) {
      if (!placed_->Contains(una_)) return;
      placed_->Erase(una_);
      TakeResponse();
      continue;
    }
    const wire::Psn end = work.first_psn + work.packets;
    const bool whole = Distance(una_, end) <= Distance(una_, heard_);
    una_ = whole ? end : heard_;
    if (whole) Retire(work);
  }
}

void Requester::StartProbeTimer(Nanos now) {
  probe_deadline_ = kNever;
  if (InFlight() == 0 || waiting_rnr_) return;
  const Nanos wait =
      std::max(round_trip_ * kProbeRoundTrips, kLeastProbeWait) * (int64_t{1} << probe_backoff_);
  const Nanos longest = ack_timeout_ == kNever ? kLongestProbeWait : ack_timeout_;
  if (wait < longest) probe_deadline_ = now + wait;
}

void Requester::AskAgain() {
  // Nothing is on its way any more: what was asked for again, or its answer, was lost too.
  NextRound();
  lost_->ForgetResent();
  searched_ = una_;
  FindLostResponses();
}

bool Requester::MayProbe() const {
  return !waiting_rnr_ && !has_lost_ && next_psn_ == high_psn_ && InFlight() != 0;
}

wire::Psn Requester::ProbePsn() const {
  if (InFlight() > PacketSet::kWindow) return una_;
  const wire::Psn last = high_psn_ - 1;
  return ring_.At(IndexOf(last, done_)).is_read() ? una_ : last;
}

void Requester::Probe(Nanos now) {
  probe_backoff_ = std::min<uint8_t>(probe_backoff_ + 1, kMaxProbeBackoff);
  StartProbeTimer(now);
  if (!waiting_rnr_ && heard_.Since(una_) > 0) return AskAgain();
  if (!MayProbe()) return;
  NextRound();
  NoteResend(ResendCause::kAckTimeout);
  lost_->AddProbe(ProbePsn());
  has_lost_ = true;
}

}  // namespace uroce::transport
