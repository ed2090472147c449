// SPDX-License-Identifier: Apache-2.0
// Calls of the program, and deadlines.
#include "nic/cm/connection.h"

#include <algorithm>

#include "nic/cm/connect_request.h"
#include "nic/cm/private_data.h"
#include "nic/cm/timeouts.h"
#include "pipeline/wire/gsi.h"

namespace uroce::nic::cm {
namespace {

/// Marks the transaction of a DREQ.
constexpr uint64_t kDreqExchange = uint64_t{1} << 32;
/// Marks the transaction of an inquiry.
constexpr uint64_t kInquiryExchange = uint64_t{2} << 32;

}  // namespace

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

// Anybody who can send a REQ, or a program beside the peer's, can name any queue pair: that proves
// nothing. A DREQ that names none of the peer's queue pairs is answered by a CM that does not know
// the connection, and ignored by one that does (docs/protocol/cm.md, sections 2 and 7).
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

}  // namespace uroce::nic::cm
