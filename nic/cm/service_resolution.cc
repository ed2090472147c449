// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/service_resolution.h"

#include <utility>

#include "nic/cm/connect_request.h"

namespace uroce::nic::cm {

Result ServiceResolution::Ask(const ResolveParameters& parameters, Nanos now) {
  if (begun_) return Result::kWrongState;
  if (parameters.private_data.size() > kResolvePrivateBytes) return Result::kTooLong;
  begun_ = asks_ = true;
  request_id_ = id_;
  route_ = parameters.route;
  interval_ = TimeOf(parameters.cm_response_timeout);
  transmissions_left_ = parameters.max_cm_retries;
  state_ = State::kReqSent;
  deadline_ = now + interval_;
  message_ = {.transaction_id = id_.value(), .body = MakeSidrReq(id_, parameters)};
  outbox_->Send(route_, message_);
  return Result::kOk;
}

void ServiceResolution::OnResponse(const wire::CmMessage& message) {
  if (state_ != State::kReqSent) {
    ++outbox_->counters.duplicates;
    return;
  }
  End();
  Raise(EventKind::kResolved, message);
}

void ServiceResolution::OnRequest(const Route& route, BindingId listener,
                                  const wire::RdmaCmHeader& header,
                                  const wire::CmMessage& message) {
  begun_ = true;
  const auto& request = std::get<wire::CmSidrReq>(message.body);
  route_ = route;
  route_.frame_source.reset();
  listener_ = listener;
  request_id_ = request.request_id;
  service_id_ = request.service_id;
  message_.transaction_id = message.transaction_id;
  state_ = State::kReqReceived;
  outbox_->Raise({.kind = EventKind::kResolveRequest,
                  .id = id_,
                  .listener = listener,
                  .route = route,
                  .header = header,
                  .message = message});
}

void ServiceResolution::OnRepeatedRequest() {
  ++outbox_->counters.duplicates;
  if (state_ == State::kAnswered) outbox_->Send(route_, message_);
}

Result ServiceResolution::Answer(const ResolveAnswer& answer, Nanos now) {
  if (state_ != State::kReqReceived) return Result::kWrongState;
  if (answer.private_data.size() > kAnswerPrivateBytes) return Result::kTooLong;
  message_.body = wire::CmSidrRep{.request_id = request_id_,
                                  .status = answer.status,
                                  .qpn = answer.qpn,
                                  .service_id = service_id_,
                                  .qkey = answer.qkey,
                                  .private_data = Padded<136>(answer.private_data)};
  state_ = State::kAnswered;
  deadline_ = now + kKeepAnswer;
  outbox_->Send(route_, message_);
  return Result::kOk;
}

void ServiceResolution::Destroy(Nanos now) {
  static_cast<void>(Answer({.status = wire::SidrStatus::kRejected}, now));
  owned_ = false;
  if (state_ == State::kReqSent) End();
}

void ServiceResolution::OnDeviceGone() {
  const bool told = state_ == State::kReqSent || state_ == State::kReqReceived;
  End();
  if (told) Raise(EventKind::kDeviceRemoved);
}

void ServiceResolution::OnDeadline(Nanos now) {
  if (now < deadline_) return;
  if (state_ == State::kAnswered) return End();
  if (transmissions_left_ == 0) {
    End();
    return Raise(EventKind::kUnreachable);
  }
  --transmissions_left_;
  ++outbox_->counters.retransmitted;
  deadline_ = now + interval_;
  outbox_->Send(route_, message_);
}

void ServiceResolution::End() {
  state_ = State::kIdle;
  deadline_ = kNever;
}

void ServiceResolution::Raise(EventKind kind, const wire::CmMessage& message) {
  if (!owned_) return;
  outbox_->Raise(
      {.kind = kind, .id = id_, .listener = listener_, .route = route_, .message = message});
}

}  // namespace uroce::nic::cm
