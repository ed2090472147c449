// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/connection.h"

#include <algorithm>

#include "nic/cm/connect_request.h"
#include "pipeline/wire/gsi.h"

namespace uroce::nic::cm {
namespace {

/// Marks the transaction of a DREQ.
constexpr uint64_t kDreqExchange = uint64_t{1} << 32;
/// Marks the transaction of an inquiry.
constexpr uint64_t kInquiryExchange = uint64_t{2} << 32;

}  // namespace

// ---- calls of the program, and deadlines ----

std::string_view StateName(State state) {
  constexpr std::string_view kNames[] = {"IDLE",      "REQ_SENT",  "MRA_REQ_RCVD", "REP_RCVD",
                                         "REQ_RCVD",  "REP_SENT",  "MRA_REP_RCVD", "ESTABLISHED",
                                         "DREQ_SENT", "DREQ_RCVD", "TIMEWAIT"};
  return kNames[static_cast<int>(state)];
}

Result Connection::Connect(const ConnectParameters& parameters, Nanos now) {
  if (state_ != State::kIdle || service_id_ != 0) return Result::kWrongState;
  if (parameters.private_data.size() > kConnectPrivateBytes) return Result::kTooLong;
  wire::CmReq req = MakeReq(id_, parameters);
  active_ = true;
  xrc_ = parameters.xrc;
  route_ = parameters.route;
  service_id_ = req.service_id;
  local_qpn_ = req.local_qpn;
  local_ca_guid_ = req.local_ca_guid;
  max_cm_retries_ = parameters.max_cm_retries;
  packet_life_time_ = parameters.packet_life_time;
  attributes_ = {.path_mtu = req.path_mtu,
                 .timeout = req.primary.local_ack_timeout,
                 .retry_count = req.retry_count};
  transaction_id_ = id_.value();
  Enter(State::kReqSent);
  const Nanos interval =
      TimeOf(parameters.packet_life_time) * 2 + TimeOf(parameters.cm_response_timeout);
  SendRepeatedly(req, transaction_id_, interval, now);
  return Result::kOk;
}

Result Connection::Accept(const AcceptParameters& parameters, Nanos now) {
  if (state_ != State::kReqReceived) return Result::kWrongState;
  if (parameters.private_data.size() > kAcceptPrivateBytes) return Result::kTooLong;
  local_qpn_ = parameters.qp.qpn;
  local_ca_guid_ = parameters.qp.local_ca_guid;
  attributes_.max_rd_atomic = parameters.qp.initiator_depth;
  attributes_.max_dest_rd_atomic = parameters.qp.responder_resources;
  Enter(State::kRepSent);
  SendRepeatedly(MakeRep(id_, remote_id_, xrc_, parameters), transaction_id_, interval_, now);
  return Result::kOk;
}

Result Connection::Reject(wire::RejReason reason, std::span<const uint8_t> private_data,
                          std::span<const uint8_t> info) {
  if (private_data.size() > kRejectPrivateBytes || info.size() > wire::kCmAriBytes) {
    return Result::kTooLong;
  }
  if (state_ != State::kReqReceived && state_ != State::kRepReceived) return Result::kWrongState;
  SendRej(active_ ? wire::CmAbout::kRep : wire::CmAbout::kReq, reason, private_data, info);
  Enter(State::kIdle);
  return Result::kOk;
}

Result Connection::Establish() {
  if (state_ != State::kRepReceived) return Result::kWrongState;
  Send(wire::CmRtu{.local_comm_id = id_, .remote_comm_id = remote_id_}, transaction_id_);
  Enter(State::kEstablished);
  return Result::kOk;
}

Result Connection::OnFirstPacket() {
  if (!awaits_rtu()) return Result::kWrongState;
  Enter(State::kEstablished);
  Raise(EventKind::kEstablished);
  return Result::kOk;
}

Result Connection::Disconnect(Nanos now) {
  if (state_ == State::kEstablished) {
    SendDreq(now);
    return Result::kOk;
  }
  if (state_ != State::kDreqReceived) return Result::kWrongState;
  Send(wire::CmDrep{.local_comm_id = id_, .remote_comm_id = remote_id_}, dreq_transaction_id_);
  EnterTimewait(now);
  return Result::kOk;
}

// Linux sends one DREQ when an id in use is destroyed, and keeps no state. Here it is repeated
// until the peer answers: so the peer of a killed program learns it in spite of loss.
void Connection::Destroy(Nanos now) {
  owned_ = false;
  switch (state_) {
    case State::kIdle:
    case State::kDreqSent:
    case State::kTimewait:
      return;
    case State::kReqSent:
    case State::kMraReqReceived:
      SendGivingUp(wire::CmAbout::kReq);
      break;
    case State::kReqReceived:
      SendRej(wire::CmAbout::kReq, wire::RejReason::kConsumerDefined);
      break;
    case State::kRepReceived:
      SendRej(wire::CmAbout::kRep, wire::RejReason::kConsumerDefined);
      break;
    case State::kRepSent:
    case State::kMraRepReceived:
      SendRej(wire::CmAbout::kOther, wire::RejReason::kConsumerDefined);
      break;
    case State::kEstablished:
    case State::kDreqReceived:
      static_cast<void>(Disconnect(now));
      return;
  }
  Enter(State::kIdle);
}

void Connection::OnDeviceGone() {
  Enter(State::kIdle);
  Raise(EventKind::kDeviceRemoved);
}

// Every host that can send a REQ, or a program beside the peer's, can name any queue pair: that
// proves nothing. A DREQ that names none of the peer's queue pairs is answered by a CM that does
// not know the connection, and ignored by one that does (docs/protocol/cm.md, sections 2 and 7).
void Connection::OnStale(Nanos now) {
  if (state_ != State::kEstablished || inquires_) return;
  inquires_ = true;
  SendRepeatedly(DreqNaming(wire::kGsiQpn), kInquiryExchange | id_.value(), interval_, now);
  transmissions_left_ = kInquiries - 1;
}

void Connection::OnDeadline(Nanos now) {
  if (now < deadline_) return;
  if (state_ == State::kTimewait) {
    Enter(State::kIdle);
    return Raise(EventKind::kTimewaitExit);
  }
  if (transmissions_left_ == 0) return GiveUp(now);
  --transmissions_left_;
  deadline_ = now + interval_;
  // The REQ may be forged, and name the shortest time: its REPs go to a host that did not ask.
  if (state_ == State::kRepSent && !outbox_->repeats.Take(route_.remote, now)) {
    ++outbox_->counters.over_rate;
    return;
  }
  SendAgain();
}

// The peer is told too, once, because it may hear us although we did not hear it: otherwise it
// would keep half a connection.
void Connection::GiveUp(Nanos now) {
  if (state_ == State::kEstablished) return Enter(State::kEstablished);  // No peer has denied it.
  if (state_ == State::kDreqSent) {
    EnterTimewait(now);
    return Raise(EventKind::kDisconnected, {}, true);
  }
  SendGivingUp(active_ ? wire::CmAbout::kReq : wire::CmAbout::kRep);
  Enter(State::kIdle);
  Raise(EventKind::kUnreachable);
}

void Connection::Enter(State state) {
  state_ = state;
  mras_ = 0;
  inquires_ = false;
  deadline_ = kNever;
}

void Connection::EnterTimewait(Nanos now) {
  Enter(State::kTimewait);
  deadline_ = now + BoundedTimeOf(attributes_.timeout, kMostTimewait);
}

void Connection::Send(wire::CmBody body, uint64_t transaction_id) {
  outbox_->Send(route_, {.transaction_id = transaction_id, .body = body});
}

void Connection::SendRepeatedly(wire::CmBody body, uint64_t transaction_id, Nanos interval,
                                Nanos now) {
  repeated_ = {.transaction_id = transaction_id, .body = body};
  interval_ = interval;
  transmissions_left_ = max_cm_retries_;
  deadline_ = now + interval_;
  outbox_->Send(route_, repeated_);
}

void Connection::SendAgain() {
  ++outbox_->counters.retransmitted;
  outbox_->Send(route_, repeated_);
}

wire::CmDreq Connection::DreqNaming(Qpn remote_qpn) const {
  return {.local_comm_id = id_, .remote_comm_id = remote_id_, .remote_qpn = remote_qpn};
}

void Connection::SendDreq(Nanos now) {
  Enter(State::kDreqSent);
  SendRepeatedly(DreqNaming(attributes_.dest_qpn), kDreqExchange | id_.value(), interval_, now);
}

void Connection::SendRej(wire::CmAbout about, wire::RejReason reason,
                         std::span<const uint8_t> private_data, std::span<const uint8_t> info) {
  Send(wire::CmRej{.local_comm_id = id_,
                   .remote_comm_id = remote_id_,
                   .about = about,
                   .info_bytes = static_cast<uint8_t>(info.size()),
                   .reason = reason,
                   .info = Padded<wire::kCmAriBytes>(info),
                   .private_data = Padded<148>(private_data)},
       transaction_id_);
}

// The peer may know only our CA GUID and id: the sender of a REQ has no id of the peer's
// (docs/protocol/cm.md, section 9, reason 4).
void Connection::SendGivingUp(wire::CmAbout about) {
  wire::CmRej rej{.local_comm_id = id_,
                  .remote_comm_id = remote_id_,
                  .about = about,
                  .info_bytes = sizeof local_ca_guid_,
                  .reason = wire::RejReason::kTimeout};
  for (size_t i = 0; i < sizeof local_ca_guid_; ++i) {
    rej.info[i] = static_cast<uint8_t>(local_ca_guid_ >> (8 * (sizeof local_ca_guid_ - 1 - i)));
  }
  Send(rej, transaction_id_);
}

void Connection::Raise(EventKind kind, const wire::CmMessage& message, bool timed_out) {
  if (!owned_) return;
  outbox_->Raise({.kind = kind,
                  .id = id_,
                  .listener = listener_,
                  .timed_out = timed_out,
                  .route = route_,
                  .message = message});
}

// ---- messages of the peer; the Manager has checked that they come from it ----

void Connection::OnReq(const Route& route, BindingId listener, const wire::RdmaCmHeader& header,
                       const wire::CmMessage& message) {
  const auto& req = std::get<wire::CmReq>(message.body);
  route_ = route;
  route_.traffic_class = req.primary.traffic_class;
  route_.sl = req.primary.sl;
  route_.flow_label = req.primary.flow_label;
  route_.hop_limit = std::max<uint8_t>(req.primary.hop_limit, 1);
  route_.frame_source.reset();
  listener_ = listener;
  service_id_ = req.service_id;
  remote_id_ = req.local_comm_id;
  remote_ca_guid_ = req.local_ca_guid;
  xrc_ = req.transport == wire::CmTransport::kExtended;
  max_cm_retries_ = req.max_cm_retries;
  attributes_ = {.dest_qpn = req.local_qpn,
                 .sq_psn = req.starting_psn,
                 .path_mtu = req.path_mtu,
                 .max_rd_atomic = req.responder_resources,
                 .max_dest_rd_atomic = req.initiator_depth,
                 .timeout = req.primary.local_ack_timeout,
                 .retry_count = req.retry_count,
                 .rnr_retry = req.rnr_retry_count};
  interval_ = BoundedTimeOf(req.local_cm_response_timeout, kMostResponseTimeout);
  transaction_id_ = message.transaction_id;
  Enter(State::kReqReceived);
  outbox_->Raise({.kind = EventKind::kConnectRequest,
                  .id = id_,
                  .listener = listener,
                  .route = route_,
                  .header = header,
                  .message = message});
}

// In REP_SENT the REP was lost, or crosses the request: it is sent again at once, without a change
// of its timer and retries (Linux waits for the timer). A peer that has sent an MRA has the REP.
// After the end of a connection its id is invalid: the sender has to take another.
void Connection::OnRepeatedReq(const wire::CmMessage& message) {
  ++outbox_->counters.duplicates;
  if (state_ == State::kReqReceived) return SendMra(wire::CmAbout::kReq);
  if (state_ == State::kRepSent) return SendAgain();
  if (state_ != State::kTimewait) return;
  outbox_->Send(route_, {.transaction_id = message.transaction_id,
                         .body = wire::CmRej{.remote_comm_id = remote_id_,
                                             .about = wire::CmAbout::kReq,
                                             .reason = wire::RejReason::kStale}});
}

void Connection::OnRep(const wire::CmMessage& message) {
  if (!awaits_reply()) {
    ++outbox_->counters.duplicates;
    if (state_ == State::kRepReceived) SendMra(wire::CmAbout::kRep);
    // The peer has not received our RTU.
    if (state_ == State::kEstablished) {
      Send(wire::CmRtu{.local_comm_id = id_, .remote_comm_id = remote_id_}, transaction_id_);
    }
    return;
  }
  const auto& rep = std::get<wire::CmRep>(message.body);
  remote_id_ = rep.local_comm_id;
  remote_ca_guid_ = rep.local_ca_guid;
  attributes_.dest_qpn = QpnIn(rep);
  attributes_.sq_psn = rep.starting_psn;
  attributes_.max_rd_atomic = rep.responder_resources;
  attributes_.max_dest_rd_atomic = rep.initiator_depth;
  attributes_.timeout = AckTimeout(rep.target_ack_delay, packet_life_time_);
  attributes_.rnr_retry = rep.rnr_retry_count;
  Enter(State::kRepReceived);
  Raise(EventKind::kConnectReply, message);
}

// The program gets a rejection at once; Linux waits until the REQ's retries are used up.
void Connection::OnStaleRep(const wire::CmMessage& message, Nanos now) {
  const auto& rep = std::get<wire::CmRep>(message.body);
  const wire::CmMessage rej = {.transaction_id = message.transaction_id,
                               .body = wire::CmRej{.local_comm_id = id_,
                                                   .remote_comm_id = rep.local_comm_id,
                                                   .about = wire::CmAbout::kRep,
                                                   .reason = wire::RejReason::kStale}};
  outbox_->Send(route_, rej);
  EnterTimewait(now);
  Raise(EventKind::kRejected, rej);
}

void Connection::OnRtu() {
  if (!awaits_rtu()) {
    ++outbox_->counters.duplicates;
    return;
  }
  Enter(State::kEstablished);
  Raise(EventKind::kEstablished);
}

void Connection::OnMra(const wire::CmMra& mra, Nanos now) {
  const bool fits = mra.about == (active_ ? wire::CmAbout::kReq : wire::CmAbout::kRep);
  if (!fits || !(awaits_reply() || awaits_rtu()) || mras_ == kMostMras) {
    ++outbox_->counters.wrong_state;
    return;
  }
  state_ = active_ ? State::kMraReqReceived : State::kMraRepReceived;
  ++mras_;
  deadline_ = now + BoundedTimeOf(mra.service_timeout, kMostServiceTimeout) +
              BoundedTimeOf(attributes_.timeout, kMostTimewait);
}

// In ESTABLISHED the peer has given up waiting for our RTU, or was destroyed meanwhile: Linux
// ignores the REJ there and would keep half a connection.
void Connection::OnRej(const wire::CmMessage& message, Nanos now) {
  switch (state_) {
    case State::kIdle:
    case State::kDreqSent:
    case State::kDreqReceived:
    case State::kTimewait:
      ++outbox_->counters.duplicates;
      return;
    case State::kEstablished:
      EnterTimewait(now);
      return Raise(EventKind::kDisconnected, message);
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kRepReceived:
    case State::kReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
      break;
  }
  // The peer takes our queue pair for an older one: its number must rest.
  const bool stale = std::get<wire::CmRej>(message.body).reason == wire::RejReason::kStale;
  stale ? EnterTimewait(now) : Enter(State::kIdle);
  Raise(EventKind::kRejected, message);
}

void Connection::OnDreq(const wire::CmMessage& message, Nanos now) {
  if (std::get<wire::CmDreq>(message.body).remote_qpn != local_qpn_) {
    ++outbox_->counters.wrong_state;
    return;
  }
  switch (state_) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
      ++outbox_->counters.wrong_state;
      return;
    case State::kRepReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
      dreq_transaction_id_ = message.transaction_id;
      Enter(State::kDreqReceived);
      return Raise(EventKind::kDisconnected, message);
    case State::kDreqSent:  // Both sides sent one: each answers the other.
      SendDrep(message);
      EnterTimewait(now);
      return Raise(EventKind::kDisconnected, message);
    case State::kDreqReceived:  // The program has not answered.
      ++outbox_->counters.duplicates;
      return;
    case State::kIdle:
    case State::kTimewait:
      ++outbox_->counters.duplicates;
      return SendDrep(message);
  }
}

void Connection::OnDrep(Nanos now) {
  const bool is_awaited = state_ == State::kDreqSent || inquires_;
  if (!is_awaited) {
    ++outbox_->counters.duplicates;
    return;
  }
  EnterTimewait(now);
  Raise(EventKind::kDisconnected);
}

// RoCE has one path: Linux's CM refuses LAP too.
void Connection::OnLap(const wire::CmMessage& message) {
  if (state_ != State::kEstablished) {
    ++outbox_->counters.wrong_state;
    return;
  }
  Send(wire::CmApr{.local_comm_id = id_,
                   .remote_comm_id = remote_id_,
                   .status = wire::AprStatus::kUnsupported},
       message.transaction_id);
}

void Connection::SendDrep(const wire::CmMessage& dreq) {
  Send(wire::CmDrep{.local_comm_id = id_, .remote_comm_id = remote_id_}, dreq.transaction_id);
}

void Connection::SendMra(wire::CmAbout about) {
  Send(wire::CmMra{.local_comm_id = id_,
                   .remote_comm_id = remote_id_,
                   .about = about,
                   .service_timeout = kServiceTimeout},
       transaction_id_);
}

}  // namespace uroce::nic::cm
