// SPDX-License-Identifier: Apache-2.0
// The responder's sending side: READ responses, atomic acknowledgements, ACKs, NAKs in PSN order.
#include "pipeline/transport/credits.h"
#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/responder.h"
#include "pipeline/wire/aeth_syndrome.h"

namespace uroce::transport {

bool Responder::PollPacket(TxPacket& packet) {
  // A sequence NAK may be older than replies to requests that came after the gap was filled.
  const bool reply_first =
      resources_.owes() && (!nak_due_ || resources_.Front().next_psn().Since(nak_psn_) < 0);
  if (reply_first) {
    FillReply(packet);
    return true;
  }
  const bool refused = nak_due_ && nak_syndrome_ != wire::kNakSequence;
  // The map goes before the sequence NAK of the same hole, which then tells nothing new. It goes
  // after the replies, because it acknowledges all before the hole.
  const bool tells = selective_ && behind_hole_ && !refused && !resources_.owes();
  if (tells && map_due_) {
    FillSelectiveAcknowledge(packet);
    return true;
  }
  if (nak_due_) {
    nak_due_ = false;
    // The NAK acknowledges all before its PSN.
    if (nak_psn_ == epsn_) ack_due_ = false;
    FillAcknowledge(nak_psn_, nak_syndrome_, packet);
    return true;
  }
  if (!ack_due_) return false;
  ack_due_ = false;
  // The PSN is never that of a READ or atomic, not even after a later duplicate: rxe 6.1 takes an
  // ACK with that PSN for the response, and completes the request without its data.
  FillAcknowledge(ack_psn_, AckSyndrome(), packet);
  return true;
}

uint8_t Responder::AckSyndrome() const {
  if (offered_receives_ == kNoCredits) return wire::kSyndromeAck | wire::kCreditsUnlimited;
  // The receive work that the responder holds counts too: its message is not in the MSN yet
  // (docs/protocol/transport.md, section 2).
  const uint32_t at_hand = message_.has_receive() ? 1 : 0;
  return wire::kSyndromeAck | CreditCode(offered_receives_ + at_hand);
}

void Responder::FillReply(TxPacket& packet) {
  ResponderResource& resource = resources_.Front();
  wire::TransportHeader& header = packet.header;
  header.solicited = header.ack_request = false;
  header.psn = resource.next_psn();
  header.aeth = {.syndrome = AckSyndrome(), .msn = msn_};
  packet.retransmission = resource.answered || resource.repeats != 0;
  if (resource.kind != ResponderResource::Kind::kAtomic) return FillReadResponse(resource, packet);
  header.opcode = wire::Opcode::kAtomicAcknowledge;
  header.atomic_original = resource.original;
  packet.source = TxPacket::Source::kNone;
  resources_.FinishFront();
}

void Responder::FillReadResponse(const ResponderResource& resource, TxPacket& packet) {
  using wire::Opcode;
  const uint32_t offset = mtu_.OffsetOf(Distance(resource.first_psn, packet.header.psn));
  const uint32_t remaining = resource.length_bytes - offset;
  const bool last = remaining <= mtu_.bytes();
  const bool opens =
      resource.repeats != 0 ? packet.header.psn == resource.first_psn : resource.opens;
  if (opens) {
    packet.header.opcode = last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst;
  } else {
    packet.header.opcode = last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle;
  }
  packet.source = remaining == 0 ? TxPacket::Source::kNone : TxPacket::Source::kRemote;
  const uint32_t size = mtu_.Take(remaining);
  packet.remote = {.rkey = resource.rkey,
                   .va = resource.va + offset,
                   .length_bytes = size,
                   .xrc_srqn = resource.xrc_srqn};
  packet.following_bytes = remaining - size;
  resources_.AdvanceFront();
}

void Responder::FillAcknowledge(wire::Psn psn, uint8_t syndrome, TxPacket& packet) const {
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kAcknowledge;
  header.solicited = header.ack_request = false;
  header.psn = psn;
  header.aeth = {.syndrome = syndrome, .msn = msn_};
  packet.source = TxPacket::Source::kNone;
  packet.retransmission = false;
}

void Responder::FillSelectiveAcknowledge(TxPacket& packet) {
  FillAcknowledge(epsn_, AckSyndrome(), packet);
  packet.header.opcode = wire::Opcode::kSelectiveAcknowledge;
  packet.source = TxPacket::Source::kOwn;
  packet.own = kept_->Map();
  map_due_ = false;
}

void Responder::OnGatherFailed(const TxPacket& packet) {
  // The memory became inaccessible during the reply: send a NAK with the PSN that is missing
  // (docs/protocol/transport.md, section 3.2). A repeated reply ends without a NAK: a duplicate is
  // never refused.
  const bool under_way =
      resources_.owes() && resources_.Front().next_psn() == packet.header.psn + 1;
  if (packet.retransmission) {
    if (!under_way) return;
    if (resources_.Front().repeats != 0) return resources_.FinishRepeats();
    if (resources_.Front().answered) resources_.FinishFront();
    return;
  }
  resources_.DropReplies();
  ack_due_ = false;
  RefuseAccess();
  failure_.psn = nak_psn_ = packet.header.psn;
}

}  // namespace uroce::transport
