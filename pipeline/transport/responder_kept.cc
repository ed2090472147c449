// SPDX-License-Identifier: Apache-2.0
// Selective repeat at the responder: keeps, reports and later executes packets behind a hole.
#include <algorithm>

#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/responder.h"
#include "pipeline/wire/aeth_syndrome.h"

namespace uroce::transport {

PacketResult Responder::OnBehindHole(const wire::Packet& packet, Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  if (!behind_hole_) kept_->Start(epsn_);
  // A peer that does not understand maps, against the agreement, still understands this NAK.
  if (!gap_reported_) SetNak(epsn_, wire::kNakSequence);
  const uint32_t window = KeptWindow(mtu_);
  const uint32_t ahead = std::min(Distance(epsn_, header.psn), window - 1);
  const wire::Psn psn = epsn_ + ahead;  // Packets beyond the window count as its last PSN.
  if (psn == header.psn && kept_->Contains(psn)) return OnKeptAgain();
  const bool is_read = ShapeOf(header.opcode).kind == RequestShape::Kind::kRead;
  const uint32_t packets = is_read ? mtu_.PacketsOf(header.reth.length_bytes) : 1;
  step_.kind = Step::Kind::kKeep;
  step_.kept_psn = psn;
  step_.kept_packets = packets;
  if (psn != header.psn || ahead + packets > window) {
    OnKeepDone(EffectOutcome::kNotKept);
    return PacketResult::kOutOfSequence;
  }
  effect.kind = Effect::Kind::kKeep;
  return PacketResult::kKept;
}

PacketResult Responder::OnKeptAgain() {
  ++counters_.duplicate_request;
  // The peer may have resent the packet because it has received no answer.
  map_due_ = selective_;
  report_ = {.answered = selective_};
  return PacketResult::kDuplicate;
}

void Responder::OnKeepDone(EffectOutcome outcome) {
  map_due_ = selective_;
  if (outcome == EffectOutcome::kDone) {
    ++counters_.kept_out_of_order;
    kept_->Insert(step_.kept_psn, step_.kept_packets);
  } else {
    ++counters_.out_of_sequence;
    report_ = {.answered = true};
    kept_->NoteSeen(step_.kept_psn);
  }
  NoteKept();
}

bool Responder::PollKept(wire::Psn& psn) {
  if (!next_kept_) return false;
  psn = epsn_;
  kept_->Erase(psn);
  NoteKept();
  return true;
}

void Responder::SetSelective(bool agreed) {
  selective_ = agreed && kept_ != nullptr;
  map_due_ &= selective_;
}

void Responder::AdvanceKept() {
  kept_->Advance(epsn_);
  NoteKept();
  if (nak_syndrome_ == wire::kNakSequence) nak_due_ = false;  // Its hole is filled.
  if (behind_hole_ && !next_kept_) SetNak(epsn_, wire::kNakSequence);
  // Answer at once: the requester learns that a hole is filled.
  map_due_ = behind_hole_ && selective_;
  ack_due_ |= !behind_hole_;
}

void Responder::ForgetKept() {
  if (kept_ == nullptr) return;
  kept_->Start(epsn_);
  NoteKept();
}

}  // namespace uroce::transport
