// SPDX-License-Identifier: Apache-2.0
// Calls on listeners and connections: listen, connect, accept, reject, disconnect.
#include <algorithm>

#include "nic/rdma_cm/queue_pair_attributes.h"
#include "nic/rdma_cm/service_impl.h"

namespace uroce::nic::rdma_cm {
namespace {

constexpr uint32_t kMostBacklog = cm::Bindings::kPlaces;
constexpr uint8_t kMostRetries = 7;
constexpr uint8_t kVendorOption = 35;  // Not supported (docs/protocol/cm.md, section 9).

constexpr auto kConsumerDefined = static_cast<uint8_t>(wire::RejReason::kConsumerDefined);

}  // namespace

Result ServiceImpl::Listen(Endpoint& endpoint, uint32_t backlog) {
  if (endpoint.state == State::kIdle) {
    SocketAddress any;
    any.address.bytes[10] = any.address.bytes[11] = 0xff;
    const Result bound = Bind(endpoint, any);
    if (bound != Result::kOk) return bound;
  }
  if (endpoint.state != State::kAddressBound) return Result::kWrongState;
  const bool counts = backlog != 0 && backlog < kMostBacklog;
  const Result result = manager_.Listen(endpoint.binding, counts ? backlog : kMostBacklog);
  if (result == Result::kOk) endpoint.state = State::kListen;
  return result;
}

Result ServiceImpl::TakeRequest(Endpoint& endpoint) {
  if (!endpoint.listener) return Result::kWrongState;
  if (Endpoint* const listener = Find(endpoint.client, *endpoint.listener)) {
    listener->requests.erase(endpoint.id);
  }
  endpoint.listener.reset();
  return manager_.OnRequestTaken(endpoint.comm);
}

Result ServiceImpl::Connect(Endpoint& endpoint, const ConnectionParameters& parameters) {
  if (endpoint.state != State::kRouteResolved) return Result::kWrongState;
  if (!endpoint.is_datagram() && !HasQueuePair(endpoint, parameters.qpn)) return Result::kInvalid;
  cm::CommId comm;
  const Result result = endpoint.is_datagram() ? SendSidrReq(endpoint, parameters, comm)
                                               : SendReq(endpoint, parameters, comm);
  if (result != Result::kOk) return result;
  endpoint.qpn = parameters.qpn;
  Attach(endpoint, comm);
  return Result::kOk;
}

Result ServiceImpl::SendReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                            cm::CommId& comm) {
  const DeviceFacts facts = environment_.Facts(endpoint.attachment->device);
  const bool is_uc = endpoint.qp_type == IBV_QPT_UC;
  return manager_.Connect({.route = RouteOf(endpoint),
                           .path_mtu = endpoint.path->mtu,
                           .packet_life_time = endpoint.path->packet_life_time,
                           .local_ca_ack_delay = facts.ack_delay,
                           .service = {endpoint.space, endpoint.remote.port},
                           .source_port = endpoint.local.port,
                           .transport = is_uc ? wire::CmTransport::kUc : wire::CmTransport::kRc,
                           .xrc = endpoint.is_xrc(),
                           .qp = QueuePairOf(endpoint, parameters),
                           .retry_count = std::min(parameters.retry_count, kMostRetries),
                           .cm_response_timeout = config_.cm_response_timeout,
                           .private_data = parameters.private_data.span()},
                          environment_.Now(), comm);
}

Result ServiceImpl::SendSidrReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                                cm::CommId& comm) {
  return manager_.Resolve({.route = RouteOf(endpoint),
                           .service = {endpoint.space, endpoint.remote.port},
                           .source_port = endpoint.local.port,
                           .cm_response_timeout = config_.cm_response_timeout,
                           .private_data = parameters.private_data.span()},
                          environment_.Now(), comm);
}

cm::Route ServiceImpl::RouteOf(const Endpoint& endpoint) {
  const PathRecord& path = *endpoint.path;
  return {.device = RouteDevice(*endpoint.attachment),
          .local = path.source,
          .remote = path.destination,
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .sl = path.sl,
          .flow_label = path.flow_label};
}

cm::QueuePairParameters ServiceImpl::QueuePairOf(const Endpoint& endpoint,
                                                 const ConnectionParameters& parameters) const {
  return {.qpn = parameters.qpn,
          .starting_psn = endpoint.starting_psn,
          .local_ca_guid = environment_.Facts(endpoint.attachment->device).node_guid,
          .responder_resources = parameters.responder_resources,
          .initiator_depth = parameters.initiator_depth,
          .rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries),
          .end_to_end_flow_control = parameters.flow_control,
          .srq = parameters.srq};
}

Result ServiceImpl::Accept(Endpoint& endpoint, const ConnectionParameters& parameters) {
  if (endpoint.state != State::kConnect) return Result::kWrongState;
  if (!HasQueuePair(endpoint, parameters.qpn)) return Result::kInvalid;
  const Nanos now = environment_.Now();
  endpoint.qpn = parameters.qpn;
  if (endpoint.is_datagram()) {
    const uint32_t qkey = parameters.qkey != 0 ? parameters.qkey : kDatagramQkey;
    return manager_.Answer(
        endpoint.comm,
        {.qpn = parameters.qpn, .qkey = qkey, .private_data = parameters.private_data.span()}, now);
  }
  return manager_.Accept(
      endpoint.comm,
      {.qp = QueuePairOf(endpoint, parameters),
       .target_ack_delay = environment_.Facts(endpoint.attachment->device).ack_delay,
       .private_data = parameters.private_data.span()},
      now);
}

Result ServiceImpl::Reject(Endpoint& endpoint, uint8_t reason,
                           std::span<const uint8_t> private_data) {
  if (endpoint.state != State::kConnect) return Result::kWrongState;
  if (reason == 0) reason = kConsumerDefined;
  if (reason != kConsumerDefined && reason != kVendorOption) return Result::kInvalid;
  if (endpoint.is_datagram()) {
    return manager_.Answer(endpoint.comm,
                           {.status = wire::SidrStatus::kRejected, .private_data = private_data},
                           environment_.Now());
  }
  return manager_.Reject(endpoint.comm, static_cast<wire::RejReason>(reason), private_data);
}

// Without a connection there is nothing to send; Linux does the same.
Result ServiceImpl::Disconnect(const Endpoint& endpoint) {
  if (endpoint.comm == cm::CommId()) return Result::kWrongState;
  static_cast<void>(manager_.Disconnect(endpoint.comm, environment_.Now()));
  return Result::kOk;
}

Result ServiceImpl::InitQueuePair(const Endpoint& endpoint, ibv_qp_state state,
                                  QueuePairAttributes& attributes) const {
  if (!endpoint.attachment) return Result::kWrongState;
  const cm::Connection* const connection = manager_.FindConnection(endpoint.comm);
  const std::optional<cm::QueuePairAttributes> agreed =
      connection == nullptr ? std::nullopt : connection->attributes();
  if (endpoint.is_datagram() || !agreed) {
    return UnconnectedAttributes(endpoint, state, attributes);
  }
  const std::optional<uint8_t> index = environment_.GidIndex(*endpoint.attachment);
  if (!index) return Result::kNoDevice;
  return ConnectedAttributes(endpoint, state, *agreed, *index, attributes);
}

}  // namespace uroce::nic::rdma_cm
