// SPDX-License-Identifier: Apache-2.0
// Requester, selective repeat: with a responder that names what it misses, that alone is sent again
// (pipeline/transport/README.md).
#include <algorithm>
#include <bit>

#include "pipeline/transport/kept_packets.h"
#include "pipeline/transport/requester.h"
#include "pipeline/wire/aeth_syndrome.h"

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
/// Packets that are looked at together.
constexpr uint32_t kMapWord = 64;

constexpr uint64_t FirstBits(uint32_t count) {
  return count >= kMapWord ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

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

void Requester::SetSelective(bool agreed) {
  if (lost_ == nullptr || agreed == selective_) return;
  selective_ = agreed;
  hears_maps_ = false;
  probe_backoff_ = 0;
  probe_deadline_ = kNever;
  round_began_ = kNever;
  round_trip_ = Nanos();
  window_.Start();
  ForgetLost();
}

PacketResult Requester::OnSelectiveAcknowledge(const wire::Packet& packet, Nanos now) {
  wire::KeptMap map;
  if (lost_ == nullptr || !map.Parse(packet.payload)) return PacketResult::kMalformed;
  SetSelective(true);  // Only a NIC that has heard of this one sends it.
  hears_maps_ = true;
  probe_backoff_ = 0;
  const wire::Psn base = packet.header.psn;
  if (base.Since(round_psn_) > 0) EndRound(now);
  AcknowledgeBefore(base, now);
  if (failed_ || waiting_rnr_) return PacketResult::kAccepted;
  if (HasArrived(base, map)) EndRound(now);
  if (map.packets() == KeptWindow(mtu_)) ResendBehind(base + map.packets());
  AddMissing(base, map);
  StartProbeTimer(now);
  return PacketResult::kAccepted;
}

bool Requester::HasArrived(wire::Psn base, const wire::KeptMap& map) {
  bool arrived = false;
  const uint32_t packets = MapReach(base, map);
  for (uint32_t at = 0; at < packets; at += kMapWord) {
    const uint64_t kept = map.Kept(at) & FirstBits(packets - at);
    if (kept == 0) continue;
    arrived |= lost_->OnArrived(base + at, kept);
    const auto last = static_cast<uint32_t>(std::bit_width(kept)) - 1;
    arrived |= (base + (at + last)).Since(round_psn_) >= 0;
  }
  has_lost_ = lost_->any();
  return arrived;
}

void Requester::ResendBehind(wire::Psn psn) {
  if (Distance(una_, psn) >= InFlight()) return;
  const HeldWork& work = ring_.At(IndexOf(psn, done_));
  GoBackTo(work.is_read() ? work.first_psn : psn);
}

void Requester::AddMissing(wire::Psn base, const wire::KeptMap& map) {
  const uint32_t packets = MapReach(base, map);
  uint32_t found = 0;
  for (uint32_t at = 0; at < packets; at += kMapWord) {
    found += lost_->Add(base + at, ~map.Kept(at) & FirstBits(packets - at));
  }
  if (found == 0) return;
  has_lost_ = true;
  window_.OnLost(found);
  NoteResend(ResendCause::kSelectiveAck);
}

uint32_t Requester::MapReach(wire::Psn base, const wire::KeptMap& map) const {
  // What is to be sent anyway after going back is not lost.
  const uint32_t sent = InFlight() - std::min(InFlight(), Distance(una_, base));
  const uint32_t window = PacketSet::kWindow - std::min(PacketSet::kWindow, Distance(una_, base));
  return std::min({map.packets(), sent, window});
}

void Requester::BeginRound(Nanos now) {
  if (round_began_ != kNever) return;
  round_began_ = now;
  round_psn_ = next_psn_;
}

void Requester::EndRound(Nanos now) {
  if (round_began_ == kNever) return;
  const Nanos sample = now - round_began_;
  const int64_t change = (sample - round_trip_).count() / kSmoothing;
  round_trip_ = round_trip_ == Nanos() ? sample : round_trip_ + Nanos(change);
  NextRound();
  window_.OnRound(RequestsInFlight());
  // What was resent before this round has arrived by now, or is lost once more.
  resending_ = false;
  searched_ = una_;
}

void Requester::NoteArrival(const wire::TransportHeader& response, Nanos now) {
  probe_backoff_ = 0;
  StartProbeTimer(now);
  const bool is_data = wire::OperationOf(response.opcode) != wire::Opcode::kAcknowledge;
  const bool is_nak = !is_data && (response.aeth.syndrome & wire::kSyndromeKindMask) != 0;
  // A NAK speaks of what is before its PSN, all else of its PSN too.
  bool arrived = response.psn.Since(round_psn_) >= (is_nak ? 1 : 0);
  // Of what is before a response to a READ, its own requests say nothing: each came by itself.
  if (is_data && Distance(una_, response.psn) < PacketSet::kWindow) {
    arrived |= lost_->OnArrived(response.psn, 1);
    has_lost_ = lost_->any();
  }
  if (arrived) EndRound(now);
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
  round_began_ = kNever;
}

void Requester::OnHoleAt(wire::Psn psn) {
  // The map that was sent with it may have been lost, and another will come.
  if (!hears_maps_) return GoBackTo(psn);
  if (waiting_rnr_ || Distance(una_, psn) >= std::min(InFlight(), PacketSet::kWindow)) return;
  if (!AddLost(psn)) return;
  window_.OnLost(1);
  NoteResend(ResendCause::kSequenceNak);
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
  // Before the first round trip nobody knows how long an answer takes.
  if (InFlight() == 0 || waiting_rnr_ || round_trip_ == Nanos()) return;
  const Nanos wait =
      std::max(round_trip_ * kProbeRoundTrips, kLeastProbeWait) * (int64_t{1} << probe_backoff_);
  const Nanos longest = ack_timeout_ == kNever ? kLongestProbeWait : ack_timeout_;
  if (wait < longest) probe_deadline_ = now + wait;
}

void Requester::AskAgain() {
  // Nothing is on its way any more: what was asked for again, or its answer, was lost too.
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
  ++counters_.tail_loss_probes;
  NoteResend(ResendCause::kTailLossProbe);
  lost_->AddProbe(ProbePsn());
  has_lost_ = true;
}

}  // namespace uroce::transport
