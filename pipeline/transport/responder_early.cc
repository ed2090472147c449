// SPDX-License-Identifier: Apache-2.0
// Responder, selective repeat: packets behind a gap, of a peer that repeats what is missing alone.
// What programs see keeps its order: only payload in the midst of WRITEs is placed early.
#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/responder.h"
#include "pipeline/wire/aeth_syndrome.h"

namespace uroce::transport {

void Responder::TakeMark(uint8_t request_mark) {
  const uint8_t mark =
      IsRequestMark(request_mark) ? kMarkResponse | (request_mark & kMarkRoundMask) : 0;
  const bool new_round = mark != mark_;
  mark_ = mark;
  if (!new_round) return;
  // What was said may have been lost, or what was sent again: it is said once more in a new round.
  if (gap_reported_ && nak_syndrome_ == wire::kNakSequence) gap_reported_ = false;
  if (!early_active_ || gap_reported_) return;
  early_->TellAgain();
  NoteEarly();
}

PacketResult Responder::OnEarly(const wire::Packet& packet, Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  if (!early_active_) early_->Start(epsn_);
  ack_due_ |= header.ack_request && early_active_;
  if (early_->Contains(header.psn)) {
    ++counters_.duplicate_request;
    report_ = {.answered = header.ack_request};
    return PacketResult::kDuplicate;
  }
  EarlyPlace place;
  if (!FindEarlyPlace(packet, place)) return OnEarlyDropped(header);
  step_.kind = Step::Kind::kEarly;
  step_.early_psn = header.psn;
  step_.early_first = ShapeOf(header.opcode).first;
  step_.reth = header.reth;
  effect.kind = Effect::Kind::kPlaceRemote;
  effect.access = Access::kRemoteWrite;
  effect.remote = place.range;
  effect.check_length_bytes = place.check_length_bytes;
  return PacketResult::kAccepted;
}

PacketResult Responder::OnEarlyDropped(const wire::TransportHeader& header) {
  const RequestShape& shape = ShapeOf(header.opcode);
  // Where nothing but the ends of WRITEs has to come again, that is named. Where the first behind
  // the gap is something else, so is most of what follows: all of it goes again.
  const bool ends_write = shape.kind == RequestShape::Kind::kWrite && shape.last && !shape.first;
  if (!early_active_ && !ends_write) return OnGap();
  ++counters_.out_of_sequence;
  early_->NoteSeen(header.psn);
  NoteEarly();
  report_ = {.answered = hole_due_, .syndrome = wire::kNakSequence};
  return PacketResult::kOutOfSequence;
}

bool Responder::FindEarlyPlace(const wire::Packet& packet, EarlyPlace& place) const {
  const RequestShape& shape = ShapeOf(packet.header.opcode);
  if (!remote_write_ || shape.kind != RequestShape::Kind::kWrite || shape.last) return false;
  if (shape.first) return early_->PlaceFirst(packet, mtu_, place);
  if (early_->BehindAnnounced(packet.header.psn)) return early_->PlaceMiddle(packet, mtu_, place);
  return FindPlaceInMessage(packet, place);
}

bool Responder::FindPlaceInMessage(const wire::Packet& packet, EarlyPlace& place) const {
  const uint32_t offset = mtu_.OffsetOf(Distance(epsn_, packet.header.psn));
  const bool fits = packet.payload.size() == mtu_.bytes() && message_.in_write() &&
                    offset + mtu_.bytes() < message_.remaining_bytes();
  if (!fits) return false;
  place.range = {
      .rkey = message_.rkey(), .va = message_.next_va() + offset, .length_bytes = mtu_.bytes()};
  place.check_length_bytes = message_.remaining_bytes() - offset;
  return true;
}

void Responder::OnEarlyDone(EffectOutcome outcome) {
  // What is not to be written is refused when its turn comes.
  if (outcome == EffectOutcome::kDone) {
    early_->Insert(step_.early_psn, step_.early_first ? &step_.reth : nullptr);
  } else {
    early_->NoteSeen(step_.early_psn);
  }
  NoteEarly();
}

void Responder::CommitEarly() {
  while (early_->Contains(epsn_)) {
    if (!CommitEarlyPacket()) return;
    // So that the requester learns at once that the gap is filled.
    ack_due_ = true;
  }
  early_->Forget(epsn_);
  NoteEarly();
}

bool Responder::CommitEarlyPacket() {
  const wire::Reth* const first = early_->FirstAt(epsn_);
  const bool continues = first != nullptr
                             ? message_.idle()
                             : message_.in_write() && message_.remaining_bytes() > mtu_.bytes();
  if (!continues) {
    RefuseInvalid(Refusal::kOrder);
    return false;
  }
  if (first != nullptr) {
    message_.BeginWrite(*first);
    ++counters_.rx_write_requests;
  }
  message_.CommitEarly(mtu_.bytes());
  ack_psn_ = epsn_;
  epsn_ = epsn_ + 1;
  return true;
}

void Responder::ForgetEarly() {
  if (early_ == nullptr) return;
  early_->Start(epsn_);
  NoteEarly();
}

}  // namespace uroce::transport
