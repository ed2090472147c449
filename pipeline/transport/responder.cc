// SPDX-License-Identifier: Apache-2.0
// The responder half of a reliable connection: executes requests in PSN order and answers them
// (docs/protocol/transport.md, section 4).
#include "pipeline/transport/responder.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "pipeline/wire/packet.h"

namespace uroce::transport {

// The receiving side of the responder: checks requests in the order of docs/protocol/transport.md,
// section 4.1, and executes them.

using Kind = RequestShape::Kind;

Responder::Responder(const RcConfig& config, QueuePairCounters& counters, EventSet& events)
    : counters_(counters),
      events_(events),
      xrc_(config.service == wire::Service::kXrc),
      kept_(config.selective_repeat),
      resources_(config.max_responder_resources) {}

void Responder::Configure(const QueuePairAttributes& attributes) {
  settings_ = {.mtu = PathMtu(attributes.path_mtu_bytes),
               .remote_write = attributes.remote_write,
               .remote_read = attributes.remote_read,
               .remote_atomic = attributes.remote_atomic,
               .min_rnr_timer = attributes.min_rnr_timer};
  resources_.SetLimit(attributes.max_dest_rd_atomic);
  SetSelective(attributes.selective_repeat);
}

void Responder::Start(wire::Psn expected) {
  epsn_ = expected;
  acks_.Start(expected);
  ForgetKept();
}

void Responder::Reset() {
  epsn_ = wire::Psn();
  acks_.Reset();
  message_.Clear();
  failed_ = flushing_ = false;
  resources_.Clear();
  completions_.Clear();
  ForgetKept();
}

void Responder::Flush() {
  flushing_ = true;
  ForgetKept();
  if (!failed_) {
    resources_.DropReplies();
    acks_.Drop();
  }
  if (message_.has_receive()) FailReceive(WcStatus::kWrFlushErr);
}

bool Responder::NeedsReceive(const wire::TransportHeader& header) const {
  if (message_.has_receive() || header.psn != epsn_) return false;
  const RequestShape& shape = ShapeOf(header.opcode);
  return shape.takes_receive() && message_.Continues(shape);
}

void Responder::PostReceive(const ReceiveWork& work) {
  message_.PostReceive(work);
  if (flushing_) FailReceive(WcStatus::kWrFlushErr);
}

PacketResult Responder::OnRequest(const wire::Packet& packet, SrqAccess srq, Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  const int32_t ahead = header.psn.Since(epsn_);
  if (ahead > 0) return OnAhead(packet, effect);
  if (ahead < 0) return OnDuplicate(header, effect);
  if (kept_.is_next_kept()) return OnKeptAgain();
  acks_.EndGap();
  step_.ack_request = header.ack_request;
  const RequestShape& shape = ShapeOf(header.opcode);
  if (!message_.Continues(shape)) return RefuseInvalid(Refusal::kOrder);
  const bool denied = srq == SrqAccess::kDenied;
  if (denied || (xrc_ && !message_.NamesSameSrq(header))) return RefuseInvalid(Refusal::kOrder);
  switch (shape.kind) {
    case Kind::kSend:
      return OnSend(packet, effect);
    case Kind::kWrite:
      return OnWrite(packet, effect);
    case Kind::kRead:
      return OnRead(packet, effect);
    case Kind::kAtomic:
      return OnAtomic(packet, effect);
    case Kind::kAtomicWrite:
      return OnAtomicWrite(packet, effect);
    case Kind::kUnknown:
      break;
  }
  return RefuseInvalid(Refusal::kOrder);
}

PacketResult Responder::OnAhead(const wire::Packet& packet, Effect& effect) {
  // After an RNR NAK the requester sends all again anyway.
  const bool refused = acks_.gap_reported() && !acks_.is_nak_of_gap();
  return kept_.is_selective() && !refused ? OnBehindHole(packet, effect) : OnGap();
}

PacketResult Responder::OnGap() {
  ++counters_.out_of_sequence;
  report_ = {.answered = !acks_.gap_reported(), .syndrome = wire::kNakSequence};
  // One NAK per gap, and none after an RNR NAK (docs/protocol/transport.md, section 4.1, step 2).
  if (!acks_.gap_reported()) acks_.OweNak(epsn_, wire::kNakSequence);
  return PacketResult::kOutOfSequence;
}

PacketResult Responder::OnDuplicate(const wire::TransportHeader& header, Effect& effect) {
  ++counters_.duplicate_request;
  report_ = {};
  switch (ShapeOf(header.opcode).kind) {
    case Kind::kSend:
    case Kind::kWrite:
      if (header.ack_request && WasMessagePacket(header.psn)) {
        report_.answered = true;
        acks_.OweAck();
        acks_.OweMap(kept_.is_open() && kept_.is_selective());
        acks_.EndGap();
      }
      break;
    case Kind::kRead:
      return OnDuplicateRead(header, effect);
    case Kind::kAtomic:
    case Kind::kAtomicWrite:
      return OnDuplicateAtomic(header);
    case Kind::kUnknown:
      break;
  }
  return PacketResult::kDuplicate;
}

bool Responder::WasMessagePacket(wire::Psn psn) const {
  return acks_.executed().Since(psn) >= 0 && acks_.executed().Since(epsn_) < 0;
}

PacketResult Responder::OnDuplicateRead(const wire::TransportHeader& header, Effect& effect) {
  // A duplicate that does not match the first request is dropped, never refused.
  ResponderResource* resource = resources_.Find(header.psn);
  if (resource == nullptr || !AsksAgainFor(*resource, header)) return PacketResult::kDuplicate;
  step_.kind = Step::Kind::kReplay;
  step_.replay = resource;
  step_.replay_psn = header.psn;
  step_.repeats = kept_.is_selective() ? settings_.mtu.PacketsOf(header.reth.length_bytes) : 0;
  if (header.reth.length_bytes == 0) {
    OnEffectDone(EffectOutcome::kDone, 0);
    return PacketResult::kDuplicate;
  }
  effect.kind = Effect::Kind::kCheckRemote;
  effect.access = Access::kRemoteRead;
  effect.remote = {.rkey = resource->rkey,
                   .va = header.reth.va,
                   .length_bytes = header.reth.length_bytes,
                   .xrc_srqn = header.xrc_srqn};
  effect.check_length_bytes = header.reth.length_bytes;
  return PacketResult::kDuplicate;
}

bool Responder::AsksAgainFor(const ResponderResource& resource,
                             const wire::TransportHeader& header) const {
  const wire::Reth& reth = header.reth;
  const uint32_t offset = settings_.mtu.OffsetOf(Distance(resource.first_psn, header.psn));
  const uint32_t rest = resource.length_bytes - offset;
  const bool in_part = kept_.is_selective() && reth.length_bytes < rest &&
                       reth.length_bytes % settings_.mtu.bytes() == 0;
  return resource.kind == ResponderResource::Kind::kRead && reth.va == resource.va + offset &&
         reth.rkey == resource.rkey && header.xrc_srqn == resource.xrc_srqn &&
         (reth.length_bytes == rest || (in_part && reth.length_bytes != 0));
}

PacketResult Responder::OnDuplicateAtomic(const wire::TransportHeader& header) {
  // The stored result is sent again: an atomic must not be executed twice.
  ResponderResource* resource = resources_.Find(header.psn);
  const auto kind = ShapeOf(header.opcode).kind == Kind::kAtomicWrite
                        ? ResponderResource::Kind::kAtomicWrite
                        : ResponderResource::Kind::kAtomic;
  if (resource == nullptr || resource->kind != kind) return PacketResult::kDuplicate;
  resources_.Replay(*resource, header.psn);
  report_.answered = true;
  acks_.EndGap();
  return PacketResult::kDuplicate;
}

PacketResult Responder::OnSend(const wire::Packet& packet, Effect& effect) {
  const RequestShape& shape = ShapeOf(packet.header.opcode);
  if (shape.first && !receive_ready()) return RefuseNotReady();
  message_.Take(packet, shape);
  if (message_.receive().malformed) {
    return RefuseReceive(wire::kNakRemoteOperation, WcStatus::kLocQpOpErr, Refusal::kReceiveEntry);
  }
  return ExecutePacket(effect);
}

// Flat, as Requester::PollPacket.
[[gnu::flatten]] PacketResult Responder::OnWrite(const wire::Packet& packet, Effect& effect) {
  const RequestShape& shape = ShapeOf(packet.header.opcode);
  if (!settings_.remote_write) return RefuseInvalid(Refusal::kRight);
  counters_.rx_write_requests += shape.first;
  message_.Take(packet, shape);
  if (!shape.immediate) return ExecutePacket(effect);
  if (!receive_ready()) return OnWriteWithoutReceive(packet, effect);
  if (message_.receive().malformed) {
    return RefuseReceive(wire::kNakRemoteOperation, WcStatus::kLocQpOpErr, Refusal::kReceiveEntry);
  }
  return ExecutePacket(effect);
}

PacketResult Responder::OnWriteWithoutReceive(const wire::Packet& packet, Effect& effect) {
  const Refusal refusal = message_.Check(settings_.mtu);
  if (refusal != Refusal::kNone) return RefuseInvalid(refusal);
  // The key is checked first, then the receive work, then the data (docs/protocol/transport.md,
  // section 4.1, 5).
  if (packet.payload.empty()) return RefuseNotReady();
  step_.kind = Step::Kind::kRefuseNotReady;
  message_.CheckKey(effect);
  return PacketResult::kReceiverNotReady;
}

PacketResult Responder::ExecutePacket(Effect& effect) {
  const Refusal refusal = message_.Check(settings_.mtu);
  if (refusal == Refusal::kReceiveLength) {
    ++counters_.resp_local_length_error;
    return RefuseReceive(wire::kNakInvalidRequest, WcStatus::kLocLenErr, refusal);
  }
  if (refusal != Refusal::kNone) return RefuseInvalid(refusal);
  step_.kind = Step::Kind::kMessage;
  message_.Place(effect);
  if (effect.kind == Effect::Kind::kNone) CommitMessage();
  return PacketResult::kAccepted;
}

// Where a packet of the run would be answered in another way than by its execution, the packets
// come one by one.
bool Responder::PlanRun(const wire::Packet& first, uint32_t packets, Effect& effect) const {
  const wire::TransportHeader& header = first.header;
  const RequestShape& shape = ShapeOf(header.opcode);
  if (header.psn != epsn_ || kept_.is_open() || acks_.gap_reported() || xrc_) return false;
  if (shape.first || shape.last || !message_.Continues(shape)) return false;
  const bool is_write = shape.kind == Kind::kWrite;
  if (!is_write && shape.kind != Kind::kSend) return false;
  if (is_write && !settings_.remote_write) return false;
  if (first.payload.size() != settings_.mtu.bytes()) return false;
  return message_.PlaceRun(packets * settings_.mtu.bytes(), effect);
}

void Responder::CommitRun(uint32_t packets, bool asks_for_ack) {
  message_.CommitRun(packets * settings_.mtu.bytes());
  epsn_ = epsn_ + packets;
  acks_.OnExecuted(epsn_ - 1, asks_for_ack);
}

PacketResult Responder::OnRead(const wire::Packet& packet, Effect& effect) {
  const wire::Reth& reth = packet.header.reth;
  ++counters_.rx_read_requests;
  if (!settings_.remote_read) return RefuseInvalid(Refusal::kRight);
  if (!resources_.HasRoom()) return RefuseInvalid(Refusal::kResources);
  if (!packet.payload.empty()) return RefuseInvalid(Refusal::kPayloadLength);
  if (reth.length_bytes > kMaxMessageBytes) return RefuseInvalid(Refusal::kMessageLength);
  step_.kind = Step::Kind::kRead;
  step_.reth = reth;
  step_.xrc_srqn = packet.header.xrc_srqn;
  if (reth.length_bytes == 0) {
    CommitRead();
    return PacketResult::kAccepted;
  }
  effect.kind = Effect::Kind::kCheckRemote;
  effect.access = Access::kRemoteRead;
  effect.remote = {.rkey = reth.rkey,
                   .va = reth.va,
                   .length_bytes = reth.length_bytes,
                   .xrc_srqn = packet.header.xrc_srqn};
  effect.check_length_bytes = reth.length_bytes;
  return PacketResult::kAccepted;
}

PacketResult Responder::OnAtomic(const wire::Packet& packet, Effect& effect) {
  const wire::AtomicEth& atomic = packet.header.atomic;
  ++counters_.rx_atomic_requests;
  if (!settings_.remote_atomic) return RefuseInvalid(Refusal::kRight);
  if (!resources_.HasRoom()) return RefuseInvalid(Refusal::kResources);
  if (!packet.payload.empty()) return RefuseInvalid(Refusal::kPayloadLength);
  if (atomic.va % kAtomicBytes != 0) return RefuseInvalid(Refusal::kAlignment);
  step_.kind = Step::Kind::kAtomic;
  effect.kind = Effect::Kind::kAtomic;
  effect.access = Access::kRemoteAtomic;
  effect.compare_swap = wire::OperationOf(packet.header.opcode) == wire::Opcode::kCompareSwap;
  effect.remote = {.rkey = atomic.rkey,
                   .va = atomic.va,
                   .length_bytes = kAtomicBytes,
                   .xrc_srqn = packet.header.xrc_srqn};
  effect.check_length_bytes = kAtomicBytes;
  effect.swap_add = atomic.swap_add;
  effect.compare = atomic.compare;
  return PacketResult::kAccepted;
}

PacketResult Responder::OnAtomicWrite(const wire::Packet& packet, Effect& effect) {
  const wire::Reth& reth = packet.header.reth;
  ++counters_.rx_atomic_requests;
  if (!settings_.remote_write) return RefuseInvalid(Refusal::kRight);
  if (!resources_.HasRoom()) return RefuseInvalid(Refusal::kResources);
  if (packet.payload.size() != kAtomicBytes) return RefuseInvalid(Refusal::kPayloadLength);
  if (reth.length_bytes != kAtomicBytes) return RefuseInvalid(Refusal::kMessageLength);
  if (reth.va % kAtomicBytes != 0) return RefuseInvalid(Refusal::kAlignment);
  step_.kind = Step::Kind::kAtomicWrite;
  effect.kind = Effect::Kind::kPlaceRemote;
  effect.access = Access::kRemoteWrite;
  effect.remote = {.rkey = reth.rkey,
                   .va = reth.va,
                   .length_bytes = kAtomicBytes,
                   .xrc_srqn = packet.header.xrc_srqn};
  effect.check_length_bytes = kAtomicBytes;
  return PacketResult::kAccepted;
}

void Responder::OnEffectDone(EffectOutcome outcome, uint64_t original) {
  if (step_.kind == Step::Kind::kReplay) {
    // A duplicate that fails its check is dropped, never refused (docs/protocol/transport.md,
    // section 4.3).
    if (outcome != EffectOutcome::kDone) return;
    acks_.EndGap();
    report_.answered = true;
    if (step_.repeats != 0) {
      return resources_.Repeat(*step_.replay, step_.replay_psn, step_.repeats);
    }
    return resources_.Replay(*step_.replay, step_.replay_psn);
  }
  if (step_.kind == Step::Kind::kKeep) return OnKeepDone(outcome);
  if (outcome != EffectOutcome::kDone) return RefuseEffect(outcome);
  switch (step_.kind) {
    case Step::Kind::kMessage:
      return CommitMessage();
    case Step::Kind::kRefuseNotReady:
      RefuseNotReady();
      return;
    case Step::Kind::kRead:
      return CommitRead();
    case Step::Kind::kAtomic:
      return CommitAtomic(ResponderResource::Kind::kAtomic, original);
    case Step::Kind::kAtomicWrite:
      return CommitAtomic(ResponderResource::Kind::kAtomicWrite, 0);
    case Step::Kind::kReplay:
    case Step::Kind::kKeep:
      return;
  }
}

void Responder::CommitPacket() {
  acks_.OnExecuted(epsn_, step_.ack_request);
  epsn_ = epsn_ + 1;
}

void Responder::CommitMessage() {
  CommitPacket();
  if (message_.shape().last) acks_.CountMessage();
  message_.Commit();
  if (message_.completes()) completions_.Push(message_.Complete());
  if (kept_.is_open()) AdvanceKept();
}

void Responder::CommitRead() {
  ResponderResource resource;
  resource.first_psn = epsn_;
  resource.packets = settings_.mtu.PacketsOf(step_.reth.length_bytes);
  resource.length_bytes = step_.reth.length_bytes;
  resource.va = step_.reth.va;
  resource.rkey = step_.reth.rkey;
  resource.xrc_srqn = step_.xrc_srqn;
  resources_.Add(resource);
  epsn_ = epsn_ + resource.packets;
  acks_.CountMessage();
  acks_.DropAck();  // The response acknowledges all before it.
  if (kept_.is_open()) AdvanceKept();
}

void Responder::CommitAtomic(ResponderResource::Kind kind, uint64_t original) {
  ResponderResource resource;
  resource.first_psn = epsn_;
  resource.original = original;
  resource.kind = kind;
  resources_.Add(resource);
  epsn_ = epsn_ + 1;
  acks_.CountMessage();
  acks_.DropAck();
  if (kept_.is_open()) AdvanceKept();
}

void Responder::FailReceive(WcStatus status) {
  const bool flushed = status == WcStatus::kWrFlushErr;
  ++(flushed ? counters_.resp_cqe_flush_error : counters_.resp_cqe_error);
  completions_.Push(message_.End(status, WcOpcode::kReceive, 0));
}

PacketResult Responder::RefuseNotReady() {
  ++counters_.out_of_buffer;
  const auto syndrome = static_cast<uint8_t>(wire::kSyndromeRnrNak | settings_.min_rnr_timer);
  report_ = {.answered = true, .syndrome = syndrome};
  acks_.OweNak(epsn_, syndrome);
  message_.PutBack();
  return PacketResult::kReceiverNotReady;
}

PacketResult Responder::Refuse(uint8_t syndrome, Refusal refusal) {
  message_.Abandon();
  acks_.OweNak(epsn_, syndrome);
  Fail(WcStatus::kSuccess, syndrome, refusal);
  return PacketResult::kNak;
}

PacketResult Responder::RefuseReceive(uint8_t syndrome, WcStatus status, Refusal refusal) {
  FailReceive(status);
  const PacketResult result = Refuse(syndrome, refusal);
  failure_.status = status;
  return result;
}

PacketResult Responder::RefuseInvalid(Refusal refusal) {
  if (message_.in_send()) {
    return RefuseReceive(wire::kNakInvalidRequest, WcStatus::kRemInvReqErr, refusal);
  }
  // No completion reports this error, so an event does (docs/protocol/transport.md, section 6).
  events_.Raise(QpEvent::kQpReqErr);
  return Refuse(wire::kNakInvalidRequest, refusal);
}

PacketResult Responder::RefuseAccess() {
  ++counters_.resp_remote_access_errors;
  events_.Raise(QpEvent::kQpAccessErr);
  return Refuse(wire::kNakRemoteAccess, Refusal::kRemoteKey);
}

void Responder::Fail(WcStatus status, uint8_t syndrome, Refusal refusal) {
  failed_ = true;
  ForgetKept();
  report_ = {.syndrome = syndrome, .refusal = refusal};
  failure_ = {.side = Failure::Side::kResponder,
              .status = status,
              .syndrome = syndrome,
              .refusal = refusal,
              .psn = epsn_};
}

void Responder::RefuseEffect(EffectOutcome outcome) {
  switch (outcome) {
    case EffectOutcome::kInvalidateFailed:
      // No NAK: the requester sees success, and the responder sees the error
      // (docs/protocol/transport.md, section 6).
      CommitPacket();
      FailReceive(WcStatus::kRemInvReqErr);
      Fail(WcStatus::kRemInvReqErr, 0, Refusal::kInvalidate);
      return;
    case EffectOutcome::kLocalProtection:
      RefuseReceive(wire::kNakRemoteOperation, WcStatus::kLocProtErr, Refusal::kLocalKey);
      return;
    case EffectOutcome::kRemoteAccess:
    case EffectOutcome::kNotKept:
    case EffectOutcome::kDone:
      RefuseAccess();
      return;
  }
}

// Selective repeat at the responder: keeps, reports and later executes packets behind a hole.

PacketResult Responder::OnBehindHole(const wire::Packet& packet, Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  if (!kept_.is_open()) kept_.Start(epsn_);
  // A peer that does not understand maps, against its answer, still understands this NAK.
  if (!acks_.gap_reported()) acks_.OweNak(epsn_, wire::kNakSequence);
  const uint32_t window = KeptWindow(settings_.mtu);
  const uint32_t ahead = std::min(Distance(epsn_, header.psn), window - 1);
  const wire::Psn psn = epsn_ + ahead;  // Packets beyond the window count as its last PSN.
  if (psn == header.psn && kept_.Contains(psn)) return OnKeptAgain();
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
  acks_.OweMap(kept_.is_selective());
  report_ = {.answered = kept_.is_selective()};
  return PacketResult::kDuplicate;
}

void Responder::OnKeepDone(EffectOutcome outcome) {
  acks_.OweMap(kept_.is_selective());
  if (outcome == EffectOutcome::kDone) {
    ++counters_.kept_out_of_order;
    kept_.Insert(step_.kept_psn, step_.kept_packets);
  } else {
    ++counters_.out_of_sequence;
    report_ = {.answered = true};
    kept_.NoteSeen(step_.kept_psn);
  }
  TendMap();
}

bool Responder::PollKept(wire::Psn& psn) {
  if (!kept_.is_next_kept()) return false;
  psn = epsn_;
  kept_.Erase(psn);
  TendMap();
  return true;
}

void Responder::SetSelective(bool agreed) {
  kept_.SetSelective(agreed);
  acks_.OweMap(acks_.owes_map() && kept_.is_selective());
}

void Responder::AdvanceKept() {
  kept_.Advance(epsn_);
  if (acks_.is_nak_of_gap()) acks_.DropNak();  // Its hole is filled.
  if (kept_.is_open() && !kept_.is_next_kept()) acks_.OweNak(epsn_, wire::kNakSequence);
  // Answer at once: the requester learns that a hole is filled.
  acks_.OweMap(kept_.is_open() && kept_.is_selective());
  if (!kept_.is_open()) acks_.OweAck();
}

void Responder::ForgetKept() {
  kept_.Start(epsn_);
  TendMap();
}

// The responder's sending side: READ responses, atomic acknowledgements, ACKs, NAKs in PSN order.

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
  const bool tells = kept_.is_selective() && kept_.is_open() && !refused && !resources_.owes();
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
  packet.payload_source = TxPacket::Source::kNone;
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
  packet.payload_source = remaining == 0 ? TxPacket::Source::kNone : TxPacket::Source::kRemote;
  const uint32_t size = settings_.mtu.Take(remaining);
  packet.remote = {.rkey = resource.rkey,
                   .va = resource.va + offset,
                   .length_bytes = size,
                   .xrc_srqn = resource.xrc_srqn};
  packet.following_bytes = remaining - size;
  resources_.AdvanceFront();
}

uint32_t Responder::RunBehind(const TxPacket& packet) const {
  if (!streaming() || acks_.owes_nak() || acks_.owes_map()) return 0;
  const ResponderResource& front = resources_.Front();
  const bool is_behind = !front.opens && front.reply_psn == packet.header.psn + 1;
  const bool is_middle = wire::InfoOf(packet.header.opcode).is_middle();
  if (!is_middle || packet.retransmission || front.repeats != 0 || !is_behind) return 0;
  return front.packets - Distance(front.first_psn, front.reply_psn) - 1;
}

TxRun Responder::PollRun(uint32_t most) {
  for (uint32_t i = 0; i < most; ++i) resources_.AdvanceFront();
  return {.packets = most};
}

void Responder::FillAcknowledge(wire::Psn psn, const wire::Aeth& aeth, TxPacket& packet) {
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kAcknowledge;
  header.solicited = header.ack_request = false;
  header.psn = psn;
  header.aeth = aeth;
  packet.payload_source = TxPacket::Source::kNone;
  packet.retransmission = false;
}

void Responder::FillSelectiveAcknowledge(TxPacket& packet) {
  FillAcknowledge(epsn_, AethOfAck(), packet);
  packet.header.opcode = wire::Opcode::kSelectiveAcknowledge;
  packet.payload_source = TxPacket::Source::kOwn;
  packet.own = kept_.Map();
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
