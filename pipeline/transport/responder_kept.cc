// SPDX-License-Identifier: Apache-2.0
// Selective repeat at the responder: keeps, reports and later executes packets behind a hole.
#include <algorithm>

#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/responder.h"
#include "pipeline/wire/aeth_syndrome.h"

namespace uroce::transport {

PacketResult Responder::OnBehindHole(const wire::Packet& packet, Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  if (!hole_.is_open()) hole_.Start(epsn_);
  // A peer that does not understand maps, against the agreement, still understands this NAK.
  if (!acks_.gap_reported()) acks_.OweNak(epsn_, wire::kNakSequence);
  const uint32_t window = KeptWindow(settings_.mtu);
  const uint32_t ahead = std::min(Distance(epsn_, header.psn), window - 1);
  const wire::Psn psn = epsn_ + ahead;  // Packets beyond the window count as its last PSN.
  if (psn == header.psn && hole_.Contains(psn)) return OnKeptAgain();
  const bool is_read = ShapeOf(header.opcode).kind == RequestShape::Kind::kRead;
  const uint32_t packets = is_read ? settings_.mtu.PacketsOf(header.reth.length_bytes) : 1;
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
  acks_.OweMap(hole_.is_selective());
  report_ = {.answered = hole_.is_selective()};
  return PacketResult::kDuplicate;
}

void Responder::OnKeepDone(EffectOutcome outcome) {
  acks_.OweMap(hole_.is_selective());
  if (outcome == EffectOutcome::kDone) {
    ++counters_.kept_out_of_order;
    hole_.Insert(step_.kept_psn, step_.kept_packets);
  } else {
    ++counters_.out_of_sequence;
    report_ = {.answered = true};
    hole_.NoteSeen(step_.kept_psn);
  }
  TendMap();
}

bool Responder::PollKept(wire::Psn& psn) {
  if (!hole_.is_next_kept()) return false;
  psn = epsn_;
  hole_.Erase(psn);
  TendMap();
  return true;
}

void Responder::SetSelective(bool agreed) {
  hole_.SetSelective(agreed);
  acks_.OweMap(acks_.owes_map() && hole_.is_selective());
}

void Responder::AdvanceKept() {
  hole_.Advance(epsn_);
  if (acks_.is_nak_of_gap()) acks_.DropNak();  // Its hole is filled.
  if (hole_.is_open() && !hole_.is_next_kept()) acks_.OweNak(epsn_, wire::kNakSequence);
  // Answer at once: the requester learns that a hole is filled.
  acks_.OweMap(hole_.is_open() && hole_.is_selective());
  if (!hole_.is_open()) acks_.OweAck();
}

void Responder::ForgetKept() {
  hole_.Start(epsn_);
  TendMap();
}

}  // namespace uroce::transport
