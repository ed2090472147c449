// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/rc_queue_pair.h"

#include <cassert>
#include <utility>

namespace uroce::transport {
namespace {

/// Whether packets are accepted in `state` (docs/protocol/transport.md, section 1).
bool Receives(QpState state) {
  return state == QpState::kRts || state == QpState::kRtr || state == QpState::kSqd;
}

}  // namespace

RcQueuePair::RcQueuePair(const RcConfig& config)
    : shared_receive_(config.shared_receive),
      service_(config.service),
      role_(config.role),
      congestion_(config.congestion),
      requester_(config, counters_),
      responder_(config, counters_, events_) {}

void RcQueuePair::Modify(QpState state, const QueuePairAttributes& attributes) {
  const QpState old = state_;
  attributes_ = attributes;
  requester_.Configure(attributes);
  responder_.Configure(attributes);
  if (state == QpState::kReset) return Reset();
  if (state == QpState::kErr) return EnterError();
  if (Receives(state) && !Receives(old)) responder_.Start(attributes.rq_psn);
  state_ = state;
  if (sending() && old != QpState::kRts && old != QpState::kSqd) {
    requester_.Start(attributes.sq_psn);
  }
  requester_.SetHold(state == QpState::kSqd);
  if (state != QpState::kSqd) drain_announced_ = false;
  Settle();
}

void RcQueuePair::SetSelectiveRepeat(bool agreed) {
  attributes_.selective_repeat = agreed;
  requester_.recovery().SetSelective(agreed);
  responder_.SetSelective(agreed);
}

void RcQueuePair::MoveTo(const congestion::Environment& environment) {
  attributes_.congestion = congestion_ = &environment;
  requester_.recovery().MoveTo(environment);
}

void RcQueuePair::Reset() {
  state_ = QpState::kReset;
  requester_.Reset();
  responder_.Reset();
  events_.Clear();
  established_ = drain_announced_ = own_turn_ = last_wqe_due_ = false;
}

void RcQueuePair::EnterError() {
  if (state_ != QpState::kErr) last_wqe_due_ = shared_receive_;
  state_ = QpState::kErr;
  requester_.Flush();
  responder_.Flush();
}

void RcQueuePair::SettleChange() {
  const bool failed = requester_.failed() || responder_.failed();
  if (failed && state_ != QpState::kErr) return EnterError();
  if (state_ == QpState::kSqd && !drain_announced_ && !requester_.busy()) {
    drain_announced_ = true;
    if (attributes_.notify_drained) events_.Raise(QpEvent::kSqDrained);
  }
}

bool RcQueuePair::NeedsReceive(const wire::TransportHeader& header) const {
  return Receives(state_) && responder_.NeedsReceive(header);
}

PacketResult RcQueuePair::OnPacket(const wire::Packet& packet, Nanos now, Effect& effect,
                                   SrqAccess srq) {
  assert(effect_of_ == EffectOf::kNothing);
  effect.kind = Effect::Kind::kNone;
  if (!Receives(state_)) return PacketResult::kBadState;
  if (wire::ServiceOf(packet.header.opcode) != service_) return PacketResult::kMalformed;
  if (!IsResponse(packet.header.opcode) && role_ == RcRole::kInitiator) {
    return PacketResult::kMalformed;
  }
  if (state_ == QpState::kRtr && !established_) {
    established_ = true;
    events_.Raise(QpEvent::kCommEst);
  }
  const bool is_response = IsResponse(packet.header.opcode);
  PacketResult result;
  if (!is_response) {
    result = responder_.OnRequest(packet, srq, effect);
  } else {
    result = sending() ? requester_.OnResponse(packet, now, effect) : PacketResult::kGhost;
  }
  if (effect.kind != Effect::Kind::kNone) {
    effect_of_ = is_response ? EffectOf::kResponse : EffectOf::kRequest;
  }
  Settle();
  return result;
}

bool RcQueuePair::PlanRun(const wire::Packet& first, uint32_t packets, Effect& effect) const {
  assert(effect_of_ == EffectOf::kNothing);
  if (!Receives(state_) || wire::ServiceOf(first.header.opcode) != service_) return false;
  if (IsResponse(first.header.opcode)) {
    return sending() && requester_.PlanRun(first, packets, effect);
  }
  return role_ != RcRole::kInitiator && responder_.PlanRun(first, packets, effect);
}

void RcQueuePair::CommitRun(const wire::Packet& first, uint32_t packets, bool asks_for_ack,
                            Nanos now) {
  if (IsResponse(first.header.opcode)) {
    requester_.CommitRun(first, packets, now);
  } else {
    responder_.CommitRun(packets, asks_for_ack);
  }
  Settle();
}

void RcQueuePair::OnEffectDone(EffectOutcome outcome, uint64_t original, Nanos now) {
  assert(effect_of_ != EffectOf::kNothing);
  if (std::exchange(effect_of_, EffectOf::kNothing) == EffectOf::kResponse) {
    requester_.OnEffectDone(outcome, now);
  } else {
    responder_.OnEffectDone(outcome, original);
  }
  Settle();
}

Failure RcQueuePair::failure() const {
  if (requester_.failed()) return requester_.failure();
  return responder_.failed() ? responder_.failure() : Failure{};
}

bool RcQueuePair::PollPacket(Nanos now, TxPacket& packet) {
  if (!PollHalves(now, packet)) return false;
  packet.header.host_delay = HostDelayFor(packet.header.opcode);
  if (service_ != wire::Service::kRc) {
    packet.header.opcode = wire::OpcodeOf(service_, packet.header.opcode);
  }
  return true;
}

bool RcQueuePair::PollHalves(Nanos now, TxPacket& packet) {
  // Responses to a READ of gigabytes must not hold up this side's requests: the two take turns.
  const bool own_first = own_turn_ && responder_.streaming();
  own_turn_ = false;
  if (!own_first && responder_.HasPacket()) {
    own_turn_ = true;
    return responder_.PollPacket(packet);
  }
  if (sending()) {
    const bool polled = requester_.PollPacket(now, packet);
    Settle();
    if (polled) return true;
  }
  return responder_.PollPacket(packet);
}

// While both halves have packets, they take turns.
uint32_t RcQueuePair::RunBehind(const TxPacket& packet) const {
  if (packet.payload_source == TxPacket::Source::kSend) {
    return !sending() || responder_.HasPacket() ? 0 : requester_.RunBehind(packet);
  }
  if (packet.payload_source != TxPacket::Source::kRemote) return 0;
  return sending() && requester_.HasPacket() ? 0 : responder_.RunBehind(packet);
}

TxRun RcQueuePair::PollRun(Nanos now, const TxPacket& packet, uint32_t most) {
  if (packet.payload_source != TxPacket::Source::kSend) {
    own_turn_ ^= most % 2 != 0;  // PollHalves changes it with each packet.
    return responder_.PollRun(most);
  }
  const TxRun run = requester_.PollRun(now, most);
  Settle();
  return run;
}

bool RcQueuePair::HasPacket() const {
  return responder_.HasPacket() || (sending() && requester_.HasPacket());
}

bool RcQueuePair::HasAcknowledgement() const {
  return responder_.HasPacket() && !responder_.streaming();
}

void RcQueuePair::OnGatherFailed(const TxPacket& packet) {
  if (packet.payload_source == TxPacket::Source::kRemote) {
    responder_.OnGatherFailed(packet);
  } else if (sending()) {
    requester_.OnGatherFailed(packet);
  }
  Settle();
}

bool RcQueuePair::PollLocal(LocalEffect& effect) {
  return sending() && requester_.PollLocal(effect);
}

void RcQueuePair::OnLocalDone(EffectOutcome outcome) {
  requester_.OnLocalDone(outcome);
  Settle();
}

bool RcQueuePair::PollEvent(QpEvent& event) {
  // The event comes after the last receive completion, not before (docs/protocol/transport.md,
  // section 6.1).
  if (last_wqe_due_ && receive_room() == kMaxReceiveCompletions) {
    last_wqe_due_ = false;
    events_.Raise(QpEvent::kLastWqeReached);
  }
  return events_.Poll(event);
}

void RcQueuePair::OnDeadline(Nanos now, bool has_heard_all) {
  if (!sending()) return;
  requester_.OnDeadline(now, has_heard_all);
  Settle();
}

void RcQueuePair::OnHeld(Nanos now) {
  if (sending()) requester_.OnHeld(now);
}

}  // namespace uroce::transport
