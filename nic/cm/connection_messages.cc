// SPDX-License-Identifier: Apache-2.0
// Messages of the peer. The Manager has checked that they come from this connection's peer.
#include <algorithm>

#include "nic/cm/connection.h"
#include "nic/cm/timeouts.h"

namespace uroce::nic::cm {

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
