// SPDX-License-Identifier: Apache-2.0
// The responder's sending side: READ responses, atomic acknowledgements, ACKs, NAKs in PSN order.
#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/responder.h"
#include "pipeline/wire/aeth_syndrome.h"

namespace uroce::transport {

bool Responder::PollPacket(TxPacket& packet) {
  // A sequence NAK may be older than replies to requests that came after the gap was filled.
  const bool reply_first =
      resources_.owes() &&
      (!acks_.owes_nak() || resources_.Front().next_psn().Since(acks_.nak_psn()) < 0);
  if (reply_first) {
    FillReply(packet);
    return true;
  }
  const bool refused = acks_.owes_nak() && !acks_.is_nak_of_gap();
  // The map goes before the sequence NAK of the same hole, which then tells nothing new. It goes
  // after the replies, because it acknowledges all before the hole.
  const bool tells = hole_.is_selective() && hole_.is_open() && !refused && !resources_.owes();
  if (tells && acks_.owes_map()) {
    FillSelectiveAcknowledge(packet);
    return true;
  }
  if (acks_.owes_nak()) {
    acks_.DropNak();
    // The NAK acknowledges all before its PSN.
    if (acks_.nak_psn() == epsn_) acks_.DropAck();
    FillAcknowledge(acks_.nak_psn(), acks_.AethOfNak(), packet);
    return true;
  }
  if (!acks_.owes_ack()) return false;
  acks_.DropAck();
  // The PSN is never that of a READ or atomic, not even after a later duplicate: rxe 6.1 takes an
  // ACK with that PSN for the response, and completes the request without its data.
  FillAcknowledge(acks_.executed(), AethOfAck(), packet);
  return true;
}

void Responder::FillReply(TxPacket& packet) {
  ResponderResource& resource = resources_.Front();
  wire::TransportHeader& header = packet.header;
  header.solicited = header.ack_request = false;
  header.psn = resource.next_psn();
  header.aeth = AethOfAck();
  packet.retransmission = resource.answered || resource.repeats != 0;
  if (resource.kind != ResponderResource::Kind::kAtomic) return FillReadResponse(resource, packet);
  header.opcode = wire::Opcode::kAtomicAcknowledge;
  header.atomic_original = resource.original;
  packet.source = TxPacket::Source::kNone;
  resources_.FinishFront();
}

void Responder::FillReadResponse(const ResponderResource& resource, TxPacket& packet) {
  using wire::Opcode;
  const uint32_t offset = settings_.mtu.OffsetOf(Distance(resource.first_psn, packet.header.psn));
  const uint32_t remaining = resource.length_bytes - offset;
  const bool last = remaining <= settings_.mtu.bytes();
  const bool opens =
      resource.repeats != 0 ? packet.header.psn == resource.first_psn : resource.opens;
  if (opens) {
    packet.header.opcode = last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst;
  } else {
    packet.header.opcode = last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle;
  }
  packet.source = remaining == 0 ? TxPacket::Source::kNone : TxPacket::Source::kRemote;
  const uint32_t size = settings_.mtu.Take(remaining);
  packet.remote = {.rkey = resource.rkey,
                   .va = resource.va + offset,
                   .length_bytes = size,
                   .xrc_srqn = resource.xrc_srqn};
  packet.following_bytes = remaining - size;
  resources_.AdvanceFront();
}

void Responder::FillAcknowledge(wire::Psn psn, const wire::Aeth& aeth, TxPacket& packet) {
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kAcknowledge;
  header.solicited = header.ack_request = false;
  header.psn = psn;
  header.aeth = aeth;
  packet.source = TxPacket::Source::kNone;
  packet.retransmission = false;
}

void Responder::FillSelectiveAcknowledge(TxPacket& packet) {
  FillAcknowledge(epsn_, AethOfAck(), packet);
  packet.header.opcode = wire::Opcode::kSelectiveAcknowledge;
  packet.source = TxPacket::Source::kOwn;
  packet.own = hole_.Map();
  acks_.OweMap(false);
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
  acks_.DropAck();
  RefuseAccess();
  acks_.MoveNak(packet.header.psn);
  failure_.psn = packet.header.psn;
}

}  // namespace uroce::transport
